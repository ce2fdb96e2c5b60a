"""One embedded Prefect server for all tests here, with its database in a temporary folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.desk import Desk


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("prefect")
    before = os.environ.copy()
    os.environ["PREFECT_HOME"] = str(folder)
    yield folder
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def desk(tmp_path: Path, prefect_home: Path) -> Desk:
    """A steward's desk with a small study of its own."""
    return Desk.set_up(tmp_path)


@pytest.fixture(scope="module")
def shared_desk(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Desk:
    """One desk for the tests of a module that only look."""
    return Desk.set_up(tmp_path_factory.mktemp("desk"))
