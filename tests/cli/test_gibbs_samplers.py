"""The Gibbs samplers through the same commands as any other: asked for by name, shown with caveats, gated."""

from pathlib import Path

import pytest

from tests.support.desk import PERIOD, STUDY, Desk

pytestmark = pytest.mark.usefixtures("workers")

FORMS = {
    "gibbs-ss-noisy": "age, female, region",
    "gibbs-ss-prior": "age, female, region",
    "gibbs-ss-update": "age, female",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_a_study_asks_for_one_by_name_and_its_report_says_what_to_believe(tmp_path: Path, name: str) -> None:
    desk = desk_asking(tmp_path, name, FORMS[name])
    shown = desk.run("run", desk.study, "--period", PERIOD)
    (found,) = desk.document("analyse", desk.study, "--period", PERIOD, exit_code=shown.exit_code)["analyses"]
    assert (found["sampler"], found["calibrated"]) == (name, False)
    assert (found["status"] == "converged") == (shown.exit_code == 0)
    assert "hardly move" in found["caveat"]
    assert found["caveat"] in Path(found["report"]).read_text()


@pytest.mark.slow
def test_a_release_that_one_cannot_take_is_refused_by_its_reason(tmp_path: Path) -> None:
    desk = desk_asking(tmp_path, "gibbs-ss-exact", "age, female")
    refused = desk.run("run", desk.study, "--period", PERIOD)
    assert refused.exit_code == 2
    assert "continuous covariates only" in refused.output.replace("\n", " ")


def desk_asking(folder: Path, name: str, covariates: str) -> Desk:
    """A desk whose analysis asks for this sampler; moments up to the fourth where it needs them."""
    desk = Desk.set_up(folder)
    text = STUDY.replace("covariates: [age, female, region]", f"covariates: [{covariates}]")
    if name == "gibbs-ss-noisy":
        text = text.replace("mechanism: gaussian", "mechanism: gaussian\n    moments: fourth")
    desk.study.write_text(
        text.replace("chains: 2", f"sampler: {name}\n    chains: 4").replace("draws: 500", "draws: 1000")
    )
    return desk
