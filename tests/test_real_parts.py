"""A machine that lacks a real part skips its tests, but not where every part was promised."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT, clean_environment
from tests.support.object_store import ObjectStore
from tests.support.parts import missing


@pytest.mark.parametrize(("promised", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_part_skips_a_test_or_fails_it_where_it_was_promised(
    monkeypatch: pytest.MonkeyPatch, promised: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("DPBAYES_REQUIRE_REAL_PARTS", promised)
    with pytest.raises(outcome, match="no teapot on this machine: buy one"):
        missing("teapot", "buy one")


def test_an_object_store_without_its_server_is_such_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_REQUIRE_REAL_PARTS", "1")
    monkeypatch.setattr("tests.support.object_store.PARTS", ("moto", "a_library_that_nobody_wrote"))
    with pytest.raises(pytest.fail.Exception, match="no S3 server on this machine"):
        ObjectStore()


SKIPS = """
import pytest
def test_one(): pytest.skip({reason!r})
def test_two(): pass
"""


@pytest.mark.parametrize(
    ("promised", "reason", "outcome"),
    [
        ("1", "no kettle", "1 failed, 1 passed"),
        ("1", "this machine lets nobody mount a small disk", "1 passed, 1 skipped"),
        ("", "no kettle", "1 passed, 1 skipped"),
    ],
)
def test_any_other_skip_fails_where_every_part_was_promised(
    tmp_path: Path, promised: str, reason: str, outcome: str
) -> None:
    (tmp_path / "test_kettle.py").write_text(SKIPS.format(reason=reason))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.support.parts", "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        env=clean_environment(DPBAYES_REQUIRE_REAL_PARTS=promised),
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert reason in done.stdout
