"""What a project asks of a Prefect server, before any server is asked."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dpbayes.project.project import Project, load_project
from dpbayes_core.errors import StudyInvalid
from tasks.deployments.files import prefect_yaml, write_files
from tasks.deployments.variables import run_variables
from tasks.deployments.wanted import CATCH_UP, RUN, Entry, Wanted, wanted
from tests.support.desk import STUDY

ENTRIES = {
    name: Entry(flow=name, entrypoint=f"flows.{name}.body", schema={"properties": {}}) for name in (RUN, CATCH_UP)
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name, population in (("north", "staff"), ("south", "staff"), ("firms", "employers")):
        (tmp_path / name).mkdir()
        text = STUDY.replace("study: pay", f"study: {name}").replace("population: staff", f"population: {population}")
        (tmp_path / name / "study.yaml").write_text(text)
    return load_project(tmp_path)


def asked(project: Project) -> Wanted:
    return wanted(project, ENTRIES, {"DO_NOT_TRACK": "1"})


def test_each_study_is_a_deployment_and_each_population_a_queue_in_which_one_run_goes_on(project: Project) -> None:
    found = asked(project)
    assert [(queue.name, queue.limit) for queue in found.queues] == [
        ("population-employers", 1),
        ("population-staff", 1),
        ("catch-up", None),
    ]
    *studies, catch_up = found.deployments
    assert [(each.full_name, each.queue) for each in studies] == [
        ("run/firms", "population-employers"),
        ("run/north", "population-staff"),
        ("run/south", "population-staff"),
    ]
    assert studies[1].parameters["study"] == str(project.folder / "north" / "study.yaml")
    assert [str(each) for each in studies[1].schedules] == ["0 2 1 * * UTC"]
    assert {str(project.folder)} == {tag.removeprefix("project:") for tag in studies[1].tags if ":" in tag}
    assert (catch_up.flow, catch_up.queue, catch_up.limit) == ("catch-up", "catch-up", 1)
    assert "/" not in catch_up.name


def test_an_analysis_that_is_made_again_has_a_schedule_in_the_deployment_of_its_study(project: Project) -> None:
    path = project.folder / "north" / "study.yaml"
    again = 'schedule: {cron: "0 4 1 1 *", timezone: Europe/Amsterdam}'
    path.write_text(path.read_text().replace("    chains: 2\n", f"    chains: 2\n    {again}\n"))
    found = asked(load_project(project.folder))
    north = next(each for each in found.deployments if each.name == "north")
    assert [(each.slug, str(each)) for each in north.schedules] == [
        ("dpbayes", "0 2 1 * * UTC"),
        ("dpbayes-pay-posterior", "0 4 1 1 * Europe/Amsterdam"),
    ]
    parsed = YAML(typ="safe").load(prefect_yaml(found))
    assert [each["slug"] for each in parsed["deployments"][1]["schedules"]] == ["dpbayes", "dpbayes-pay-posterior"]


def test_a_folder_without_studies_asks_for_no_deployment(tmp_path: Path) -> None:
    found = asked(load_project(tmp_path))
    assert (found.queues, found.deployments) == ((), ())


def test_runs_get_places_by_their_whole_path_and_nothing_that_was_not_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    environment = {
        "DPBAYES_HOME": "home",
        "DPBAYES_DASK": "tls://dask:8786",
        "DPBAYES_LEDGER_URL": "postgresql://me:CANARY@host/ledger",
        "PREFECT_API_AUTH_STRING": "CANARY",
        "PGPASSWORD": "CANARY",
    }
    assert run_variables(project, environment) == {
        "DPBAYES_DASK": "tls://dask:8786",
        "DPBAYES_HOME": str(project.folder / "home"),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DPBAYES_DASK", "tls://me:CANARY@dask:8786"),
        ("DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY", "-----BEGIN PRIVATE KEY-----\nCANARY\n"),
        ("DPBAYES_HOME", "//me:CANARY@[home"),
        ("DPBAYES_DASK", "tls://dask:8786?token=CANARY"),
        ("DPBAYES_DASK_ALLOW_PLAIN", "dask,me:CANARY@other"),
    ],
)
def test_a_secret_is_refused_and_not_repeated(project: Project, name: str, value: str) -> None:
    with pytest.raises(StudyInvalid, match=f"cannot deploy with {name}: it contains a secret") as refused:
        run_variables(project, {name: value})
    assert "CANARY" not in str(refused.value)


def test_the_file_has_every_deployment_and_says_how_to_make_the_queues(project: Project) -> None:
    text = prefect_yaml(asked(project))
    assert "#   prefect work-queue create population-staff --pool dpbayes --limit 1" in text
    parsed = YAML(typ="safe").load(text)
    assert [each["name"] for each in parsed["deployments"]][:3] == ["firms", "north", "south"]
    assert parsed["deployments"][0]["schedules"] == [{"cron": "0 2 1 * *", "timezone": "UTC", "slug": "dpbayes"}]
    assert parsed["deployments"][3]["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert "entrypoint: flows.run.body" in text.replace('"', "")


def test_only_a_file_of_our_own_is_overwritten(project: Project) -> None:
    path = write_files(asked(project))
    assert write_files(asked(project)) == path
    path.write_text("name: somebody's\n")
    with pytest.raises(StudyInvalid, match="was not made by `dpbayes deploy --files`"):
        write_files(asked(project))
