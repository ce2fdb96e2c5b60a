"""Dask as deploy/ starts it: the commands of compose file and chart, with the certificates of make-secrets."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import clean_environment
from tests.support.dask_cluster import certificate
from tests.support.image import DEPLOY, made_secrets, read
from tests.support.prefect import free_port, running, wait_until

CLIENT = """
import sys
from distributed import Client
with Client(sys.argv[1], timeout=10) as client:
    client.wait_for_workers(1, timeout=100)
    print(client.submit(sum, (1, 2)).result(timeout=60))
"""


@dataclass(frozen=True)
class Command:
    """What a container runs: its arguments and its variables."""

    arguments: list[str]
    variables: dict[str, str]


def of_compose(name: str, secrets: Path) -> Command:
    compose = read("compose.yaml")
    files = {f"/run/secrets/{key}": str(secrets / Path(each["file"]).name) for key, each in compose["secrets"].items()}
    service = compose["services"][name]
    return Command(service["command"], {key: files.get(value, value) for key, value in service["environment"].items()})


def of_chart(name: str, secrets: Path) -> Command:
    """The arguments that the templates of Dask's chart put before those of the values."""
    values = read("helm/dask.yaml")[name.removeprefix("dask-")]
    first = {
        "dask-scheduler": ["dask-scheduler", "--port=8786", "--dashboard-address=:8787"],
        "dask-worker": f"dask-worker {values.get('custom_scheduler_url')} --nthreads 1 --memory-limit 3G".split(),
    }
    files = {"ca.crt": "dask-ca.crt", "tls.crt": "dask.crt", "tls.key": "dask.key"}
    texts = {
        each["name"]: each.get("value") or (secrets / files[each["valueFrom"]["secretKeyRef"]["key"]]).read_text()
        for each in values["env"]
    }
    page = ["--no-dashboard", "--dashboard-address", "8790"] if name == "dask-worker" else []
    return Command([*first[name], *page, *values["extraArgs"]], texts)


class Cluster:
    """A scheduler and a worker on loopback, with ports and scratch folder of their own."""

    def __init__(self, folder: Path, secrets: Path) -> None:
        self.folder, self.secrets = folder, secrets
        self.address = f"tls://127.0.0.1:{free_port()}"
        self.pages = {name: str(free_port()) for name in ("dask-scheduler", "dask-worker")}

    def start(self, name: str, command: Command, stack: ExitStack) -> None:
        port = self.address.rpartition(":")[2]
        there = {"8786": port, "8787": self.pages[name], "/srv/scratch": str(self.folder)}
        arguments = [each.replace("tls://dask-scheduler:8786", self.address) for each in command.arguments]
        for ours, here in there.items():
            arguments = [each.replace(ours, here) for each in arguments]
        environment = environment_of(command.variables)
        log = self.folder / f"{name}.log"
        program = (str(DEPLOY / "with-secrets"), *arguments)
        stack.enter_context(running(*program, environment=environment, cwd=self.folder, log=log))
        wait_until(lambda: self.healthy(name), 100, f"{name}: {log}")

    def healthy(self, name: str) -> bool:
        """What the health check of the container says."""
        address = f"http://127.0.0.1:{self.pages[name]}/health"
        asked = subprocess.run([DEPLOY / "healthy", address], env=environment_of({}), check=False)
        return asked.returncode == 0

    def ask(self, address: str, **variables: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", CLIENT, address]
        return subprocess.run(
            program, env=environment_of(variables), capture_output=True, text=True, timeout=200, check=False
        )


def environment_of(variables: dict[str, str]) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in clean_environment().items() if not name.startswith("DASK_")}
    return kept | {"PATH": path} | variables


@pytest.fixture(params=[of_compose, of_chart], ids=["compose", "chart"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    secrets = made_secrets(tmp_path / "secrets")
    made = Cluster(tmp_path, secrets)
    with ExitStack() as stack:
        for name in ("dask-scheduler", "dask-worker"):
            made.start(name, request.param(name, secrets), stack)
        yield made


@pytest.mark.slow
def test_the_cluster_obeys_who_has_its_certificate_and_nobody_else(cluster: Cluster, tmp_path: Path) -> None:
    ours = of_compose("dask-worker", cluster.secrets).variables
    done = cluster.ask(cluster.address, **ours)
    assert done.stdout == "3\n", done.stderr
    strange = certificate(tmp_path / "strange", "strange")
    for address, variables in ((cluster.address, strange), (cluster.address.replace("tls", "tcp"), {})):
        refused = cluster.ask(address, **variables)
        assert refused.returncode != 0
        assert refused.stdout == ""
