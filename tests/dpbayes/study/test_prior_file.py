"""A prior in a file of its own: what an empty one is answered with can be written into it as it stands."""

from pathlib import Path

import pytest

from dpbayes.kinds.registry import KINDS
from dpbayes.study.load import load_prior
from dpbayes_core.errors import StudyInvalid

PRIORS = {name: kind.prior for name, kind in KINDS.items() if kind.prior is not None}
EXAMPLES = {name: prior.example for name, prior in PRIORS.items() if prior.example}


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
    assert EXAMPLES.keys() == {name for name, prior in PRIORS.items() if prior.parts}
    for kind, text in EXAMPLES.items():
        (tmp_path / "prior.yaml").write_text(text)
        assert load_prior(tmp_path / "prior.yaml", kind, ()).model_fields_set <= set(PRIORS[kind].parts)
