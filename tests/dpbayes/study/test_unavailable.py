"""What the study file can say and this version cannot do is refused in one sentence each."""

from pathlib import Path

import pytest

from dpbayes.kinds.regression.section import RegressionSpec
from dpbayes.study import load
from dpbayes.study.file import StudyFile
from dpbayes.study.unavailable import UNAVAILABLE, unavailable_in
from dpbayes_core.errors import StudyInvalid

STUDY = Path(__file__).parents[3].joinpath("examples/wages/study.yaml").read_text()

REQUESTS = [
    ("sampler: auto ", "sampler: mcmc-ind ", "analyses.wage-posterior.sampler"),
]


def write(tmp_path: Path, old: str, new: str) -> Path:
    assert old in STUDY
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.replace(old, new, 1))
    return path


@pytest.mark.parametrize(("old", "new", "field"), REQUESTS)
def test_what_is_not_available_is_refused_at_its_line(tmp_path: Path, old: str, new: str, field: str) -> None:
    path = write(tmp_path, old, new)
    with pytest.raises(StudyInvalid, match=r"is not available in this version\. [A-Z]") as caught:
        load.load_study(path)
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if field.split(".")[-1] + ":" in text)
    assert str(caught.value).startswith(f"cannot read study study.yaml: line {line}, {field}: ")


def test_every_line_of_the_table_is_reached_by_a_request_above() -> None:
    asked = {field for _, _, field in REQUESTS}
    lines = {line.field.replace("releases.*", "releases.wage-regression") for line in UNAVAILABLE}
    assert {line.replace("analyses.*", "analyses.wage-posterior") for line in lines} == asked


def test_every_line_names_a_key_that_the_models_know() -> None:
    for line in UNAVAILABLE:
        model: object = StudyFile
        *outer, last = line.field.split(".")
        for key in outer:
            if key != "*":
                annotation = model.model_fields[key].annotation  # type: ignore[attr-defined]
                model = RegressionSpec if key == "releases" else getattr(annotation, "__args__", (annotation,))[-1]
        assert last in model.keys()  # type: ignore[attr-defined]  # noqa: SIM118


def test_without_the_table_the_models_take_what_it_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "unavailable_in", lambda data: iter(()))
    for old, new, _ in REQUESTS:
        if "sampler" not in new:  # samplers are named one by one
            load.load_study(write(tmp_path, old, new))


def test_what_is_not_given_is_not_refused() -> None:
    assert list(unavailable_in({"source": {"max_rows_per_unit": 1}, "releases": {"r": {"kind": "regression"}}})) == []
    assert list(unavailable_in({"source": None, "releases": ["x"], "analyses": {"a": 1}})) == []
