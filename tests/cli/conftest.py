"""One Prefect server and one Dask cluster for all tests here, with what they keep in temporary folders."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.desk import PERIOD, Desk


@pytest.fixture(scope="session", autouse=True)
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("prefect")
    before = os.environ.copy()
    os.environ["PREFECT_HOME"] = str(folder)
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from tasks.prefect_server import own_server

    server = own_server()
    if server is not None:
        server.wait()
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):  # every run would end by a second's sleep
        yield folder
    if server is not None:
        server.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def _shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def workers(_shared_cluster: str) -> Iterator[None]:
    """A module's chains run on a cluster that stands, rather than each analysis starting processes of its own."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DPBAYES_DASK", _shared_cluster)
        yield


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A steward's desk with a small study of its own."""
    return Desk.set_up(tmp_path)


@pytest.fixture(scope="module")
def shared_desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """One desk for the tests of a module that only look."""
    return Desk.set_up(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a released month and its posterior by the quick naive sampler, for a module to copy."""
    agency = Desk.set_up(tmp_path_factory.mktemp("agency"))
    agency.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    agency.document("run", agency.study, "--period", PERIOD)
    return agency
