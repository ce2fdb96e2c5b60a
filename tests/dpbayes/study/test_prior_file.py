"""A prior in a file of its own: what an empty one is answered with can be written into it as it stands."""

from pathlib import Path

import pytest

from dpbayes.analyses.priors import PRIORS
from dpbayes.study.prior import PARTS
from dpbayes.study.prior_file import EXAMPLES, load_prior
from dpbayes_core.errors import StudyInvalid


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_prior_is_answered_with_what_it_may_hold(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / "prior.yaml"
    path.write_text(text)
    with pytest.raises(StudyInvalid, match="the file is empty") as caught:
        load_prior(path, kind, ("age",))
    assert EXAMPLES.get(kind, "Leave --prior out.") in str(caught.value)
    assert "study" not in str(caught.value)


def test_every_example_is_a_prior_of_its_kind(tmp_path: Path) -> None:
    assert EXAMPLES.keys() == PARTS.keys()
    for kind, text in EXAMPLES.items():
        (tmp_path / "prior.yaml").write_text(text)
        assert load_prior(tmp_path / "prior.yaml", kind, ()).model_fields_set <= set(PARTS[kind])
