"""`dpbayes deploy` on a real Prefect server that asks for a password, and a worker that runs what it made."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.ledger.periods import Period
from tests.support.command import DPBAYES, document
from tests.support.desk import STUDY, people
from tests.support.faults import assert_fault, fault
from tests.support.prefect import Orchestrator, free_port, wait_until

CRON, EACH_MINUTE = 'cron: "0 2 1 * *"', 'cron: "* * * * *"'
PATIENCE = 300

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    made = Orchestrator(tmp_path_factory.mktemp("orchestrator"))
    with made.server():
        yield made


@dataclass
class Folder:
    """A project folder and the server that it is deployed on."""

    folder: Path
    orchestrator: Orchestrator
    environment: dict[str, str] = field(default_factory=dict)

    def study(self, name: str, population: str = "staff") -> Path:
        """Write a study."""
        path = self.folder / name / "study.yaml"
        path.parent.mkdir(parents=True)
        text = STUDY.replace("study: pay", f"study: {name}")
        path.write_text(text.replace("population: staff", f"population: {population}"))
        return path

    def run(self, *options: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The command, in a process of its own."""
        return subprocess.run(
            [*DPBAYES, "deploy", str(folder or self.folder), *options],
            env=self.orchestrator.environment | self.environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def deploy(self, *options: str, exit_code: int = 0) -> dict[str, Any]:
        """The JSON document of the command."""
        done = self.run(*options, "--json")
        assert done.returncode == exit_code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def steps(self, *options: str, exit_code: int = 0) -> dict[str, str]:
        """Everything that is not to be left, with what is done to it."""
        steps = self.deploy(*options, exit_code=exit_code)["steps"]
        return {step["name"]: step["action"] for step in steps if step["action"] != "leave"}

    def server_has(self) -> dict[str, Any]:
        """The deployments of this project, by name, as the server has them."""
        tags = {"all_": ["dpbayes", f"project:{self.folder}"]}
        found = self.orchestrator.ask("deployments/filter", {"deployments": {"tags": tags}})
        return {each["name"]: each for each in found}

    def names(self) -> set[str]:
        """The deployed studies."""
        return {name for name in self.server_has() if "/" not in name and not name.startswith("tmp")}


@pytest.fixture
def project(orchestrator: Orchestrator, tmp_path: Path) -> Iterator[Folder]:
    """A folder with three studies of two populations; at the end the server has none of its deployments."""
    found = Folder(tmp_path / "project", orchestrator)
    for name, population in (("north", "staff"), ("south", "staff"), ("firms", "employers")):
        found.study(name, population)
    yield found
    orchestrator.ask("deployments/bulk_delete", {"deployments": {"tags": {"all_": [f"project:{found.folder}"]}}})


def queues(orchestrator: Orchestrator) -> dict[str, Any]:
    found = orchestrator.ask("work_pools/dpbayes/queues/filter", {})
    return {queue["name"]: queue["concurrency_limit"] for queue in found}


def test_a_folder_is_deployed_followed_and_retired(project: Folder) -> None:
    shown = project.run("--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "make   deployment  run/north" in shown.stdout
    assert "none was done: this was a dry run." in shown.stdout
    assert project.server_has() == {}

    made = project.steps()
    assert made.items() >= {f"run/{name}": "make" for name in ("north", "south", "firms")}.items()
    assert queues(project.orchestrator).items() >= {"population-staff": 1, "population-employers": 1}.items()
    north = project.server_has()["north"]
    assert (north["work_pool_name"], north["work_queue_name"]) == ("dpbayes", "population-staff")
    assert north["parameters"]["study"] == str(project.folder / "north" / "study.yaml")
    assert north["job_variables"]["env"]["DO_NOT_TRACK"] == "1"
    assert "a secret of this test" not in json.dumps(north)
    assert project.steps() == {}
    assert "There is nothing to do" in project.run().stdout

    study = project.folder / "north" / "study.yaml"
    study.write_text(study.read_text().replace(CRON, 'cron: "30 4 * * 1", timezone: Europe/Amsterdam'))
    document = project.deploy("--dry-run")
    (changed,) = [step for step in document["steps"] if step["action"] != "leave"]
    assert changed["changes"] == [{"what": "schedule", "from": "0 2 1 * * UTC", "to": "30 4 * * 1 Europe/Amsterdam"}]
    assert project.server_has()["north"]["schedules"] == north["schedules"]
    assert project.steps() == {"run/north": "change"}
    (schedule,) = project.server_has()["north"]["schedules"]
    assert (schedule["id"], schedule["schedule"]["cron"]) == (north["schedules"][0]["id"], "30 4 * * 1")
    assert schedule["schedule"]["timezone"] == "Europe/Amsterdam"

    plain, line = study.read_text(), "    chains: 2\n"
    study.write_text(plain.replace(line, f'{line}    schedule: {{cron: "0 4 1 1 *"}}\n'))
    assert project.steps() == {"run/north": "change"}
    found = {each["slug"]: each for each in project.server_has()["north"]["schedules"]}
    assert found.keys() == {"dpbayes", "dpbayes-pay-posterior"}
    assert (found["dpbayes"]["id"], found["dpbayes-pay-posterior"]["schedule"]["cron"]) == (schedule["id"], "0 4 1 1 *")
    assert project.steps() == {}
    study.write_text(plain)
    assert project.steps() == {"run/north": "change"}
    assert [each["id"] for each in project.server_has()["north"]["schedules"]] == [schedule["id"]]

    study.write_text(study.read_text().replace("study: north", "study: far-north"))
    shutil.rmtree(project.folder / "firms")
    assert project.steps() == {
        "run/far-north": "make",
        "run/north": "retire",
        "run/firms": "retire",
        "population-employers": "retire",
    }
    assert project.names() == {"far-north", "south"}
    assert "population-employers" not in queues(project.orchestrator)
    assert project.steps() == {}


def test_what_others_made_is_never_touched(project: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other", project.orchestrator)
    other.study("east")
    other.deploy()
    before = other.server_has()
    project.deploy()
    by_hand = project.study("west").parent
    shutil.copy(Path(__file__).parents[2] / "examples" / "wages" / "prefect.yaml", by_hand)
    schedule = by_hand / "prefect.yaml"
    schedule.write_text(schedule.read_text().replace("- name: wages", "- name: west"))
    project.orchestrator.prefect("deploy", "--all", cwd=by_hand)
    refused = project.run()
    assert refused.returncode == 2
    assert "NOT DEPLOYED: run/west: a deployment of that name exists which this project did not make." in refused.stdout
    assert "prefect deployment delete run/west" in refused.stdout
    shutil.rmtree(by_hand)
    shutil.rmtree(project.folder / "south")
    assert project.steps() == {"run/south": "retire"}
    assert other.server_has() == before
    assert project.orchestrator.ask("deployments/name/run/west")["tags"] == []
    project.orchestrator.prefect("deployment", "delete", "run/west")
    shutil.rmtree(other.folder / "east")
    assert other.steps()["run/east"] == "retire"


def test_what_an_operator_set_by_hand_is_kept_and_what_dpbayes_decides_is_put_right(project: Folder) -> None:
    project.deploy()
    orchestrator = project.orchestrator
    (south,) = project.server_has()["south"]["schedules"]
    orchestrator.prefect("deployment", "schedule", "create", "run/north", "--interval", "60")
    orchestrator.prefect("deployment", "schedule", "pause", "run/south", south["id"])
    study = project.folder / "south" / "study.yaml"
    study.write_text(study.read_text().replace(CRON, EACH_MINUTE))
    (project.folder / "dpbayes.yaml").write_text("home: home\n")
    found = project.deploy()["steps"]
    changes = {step["name"]: [change["what"] for change in step["changes"]] for step in found if step["changes"]}
    assert changes["run/north"] == ["schedule", "DPBAYES_HOME"]
    assert changes["run/south"] == ["schedule", "DPBAYES_HOME"]
    (south,) = project.server_has()["south"]["schedules"]
    assert (south["active"], south["schedule"]["cron"]) == (False, "* * * * *")
    north = project.server_has()["north"]
    assert [each["slug"] for each in north["schedules"]] == ["dpbayes"]
    assert north["job_variables"]["env"]["DPBAYES_HOME"] == str(project.folder / "home")
    assert project.steps() == {}


def test_a_study_that_cannot_be_read_keeps_its_deployment_and_stops_no_other(project: Folder) -> None:
    project.deploy()
    broken = project.folder / "south" / "study.yaml"
    broken.write_text(broken.read_text().replace("epsilon: 1\n", "epsilon: -1\n"))
    project.study("west")
    document = project.deploy(exit_code=2)
    assert {step["name"] for step in document["steps"] if step["action"] != "leave"} == {"run/west"}
    (problem,) = document["problems"]
    assert problem.startswith(f"{broken}: cannot read study study.yaml: line")
    assert "south" in project.names()


def test_the_written_prefect_yaml_deploys_the_same(project: Folder) -> None:
    assert project.deploy("--files")["file"] == str(project.folder / "prefect.yaml")
    project.orchestrator.prefect("deploy", "--all", cwd=project.folder)
    assert {name: action for name, action in project.steps("--dry-run").items() if name.startswith("run/")} == {}
    assert set(project.steps()) <= {"population-staff", "population-employers", "catch-up"}  # their limits
    assert project.steps() == {}


def test_a_pool_that_is_not_there_is_made(project: Folder) -> None:
    (project.folder / "dpbayes.yaml").write_text("prefect: {pool: agency}\n")
    assert project.steps()["agency"] == "make"
    assert project.orchestrator.ask("work_pools/agency")["type"] == "process"
    assert project.server_has()["north"]["work_pool_name"] == "agency"
    (project.folder / "dpbayes.yaml").unlink()
    moved = project.deploy()["steps"]
    changes = {step["name"]: step["changes"] for step in moved}
    assert changes["run/north"] == [{"what": "pool", "from": "agency", "to": "dpbayes"}]
    assert project.steps() == {}


def last_month() -> str:
    return Period.previous(datetime.now(UTC), "month").name


def test_a_worker_runs_what_is_deployed_when_it_is_due(project: Folder) -> None:
    (project.folder / "dpbayes.yaml").write_text('home: home\nprefect: {catch_up: "0 0 1 1 *"}\n')
    study = project.folder / "north" / "study.yaml"
    study.write_text(study.read_text().replace(CRON, EACH_MINUTE))
    (study.parent / "data").mkdir()
    pq.write_table(pa.table(people()), study.parent / "data" / f"pay-{last_month()}.parquet")
    document("ledger", "create", study, cwd=project.folder)
    project.deploy()
    posteriors = project.folder / "home" / "archive" / "posteriors"
    with project.orchestrator.worker():
        wait_until(lambda: report_of(project.orchestrator, posteriors), PATIENCE, "the report")
    history = document("ledger", "history", study, cwd=project.folder)
    charged = [entry for entry in history["entries"] if entry["kind"] == "charge"]
    assert [(entry["period"], entry["actor"]) for entry in charged] == [(last_month(), "scheduler")]
    assert project.steps() == {}  # the crates in the home, with copies of the study, are no studies


def report_of(orchestrator: Orchestrator, posteriors: Path) -> list[Path]:
    assert "type=FAILED" not in orchestrator.log, orchestrator.log
    return list(posteriors.rglob("report.html"))


def test_a_study_that_is_removed_while_a_run_is_active_is_paused_and_may_come_back(project: Folder) -> None:
    project.deploy()
    ask, deployment = project.orchestrator.ask, project.server_has()["north"]["id"]
    run = ask(f"deployments/{deployment}/create_flow_run", {"state": {"type": "RUNNING"}})["id"]
    study = project.folder / "north" / "study.yaml"
    kept = study.read_text()
    study.unlink()
    assert project.steps() == {"run/north": "pause"}
    found = project.server_has()["north"]
    assert (found["paused"], found["schedules"]) == (True, [])
    assert scheduled(project, deployment) == []
    assert project.steps() == {}
    study.write_text(kept)
    assert project.steps() == {"run/north": "change"}
    found = project.server_has()["north"]
    assert (found["paused"], len(found["schedules"]), found["id"]) == (False, 1, deployment)
    study.unlink()
    ask(f"flow_runs/{run}/set_state", {"state": {"type": "COMPLETED"}, "force": True})
    assert project.steps() == {"run/north": "retire"}
    assert "north" not in project.names()


def scheduled(project: Folder, deployment: str) -> list[Any]:
    chosen = {"state": {"type": {"any_": ["SCHEDULED"]}}}
    asked = {"deployments": {"id": {"any_": [deployment]}}, "flow_runs": chosen}
    return project.orchestrator.ask("flow_runs/filter", asked)


SILENT = (
    "cannot go on: Prefect's server does not answer. Start it, or correct PREFECT_API_URL, and run again; what was "
    "released or archived is kept."
)


@fault("Prefect's server does not answer `dpbayes deploy`", SILENT, exit_code=1, within=60)
def test_a_server_that_does_not_answer_is_one_sentence(project: Folder) -> None:
    project.environment = {"PREFECT_API_URL": f"http://127.0.0.1:{free_port()}/api"}
    done = project.run()
    assert_fault(done, test_a_server_that_does_not_answer_is_one_sentence)


def test_a_wrong_password_and_no_server_at_all_are_one_sentence_each(project: Folder) -> None:
    project.environment = {"PREFECT_API_AUTH_STRING": "steward:another"}
    refused = project.run()
    assert refused.returncode == 1
    assert refused.stderr.strip().startswith("cannot go on: Prefect's server refuses the password.")
    project.environment = {"PREFECT_API_URL": ""}
    unnamed = project.run()
    assert unnamed.returncode == 2
    assert unnamed.stderr.strip().startswith("cannot deploy: no Prefect server is named. Set PREFECT_API_URL")


def test_a_folder_without_a_study_is_refused(orchestrator: Orchestrator, tmp_path: Path) -> None:
    refused = Folder(tmp_path, orchestrator).run()
    assert refused.returncode == 2
    assert "no study is in it (**/study.yaml). Name another folder." in refused.stderr
