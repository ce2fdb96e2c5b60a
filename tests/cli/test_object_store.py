"""A steward whose table and archive are on an object store: a whole run, and its audit."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from storage.files.archive import Archive
from tests.support.command import ROOT, document, dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.object_store import ObjectStore
from tests.support.place import Place

KILLED = """
import os, signal, sys
from storage.files.stores import RemoteStore
from tests.support.killed import release_alone

moment, calls, put = int(sys.argv[3]), 0, RemoteStore._put

def deadly(*arguments):
    global calls
    put(*arguments)
    calls += 1
    if calls == moment:
        os.kill(os.getpid(), signal.SIGKILL)

RemoteStore._put = deadly
release_alone(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
def test_a_run_on_an_object_store_is_archived_there_and_passes_its_audit(desk: Desk, object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/archive"
    tables = object_store.new_bucket()
    fsspec.filesystem("s3").put_file(str(desk.table()), f"{tables}/pay-{PERIOD}.parquet")
    desk.table().unlink()
    desk.edit_study('"data/pay-{period}.parquet"', f'"{tables}/pay-{{period}}.parquet"')
    shutil.rmtree(desk.home)
    names = {"cwd": desk.folder, "DPBAYES_ARCHIVE_URL": place}
    dpbayes("ledger", "create", desk.study, check=True, **names)
    first = document("run", desk.study, "--period", PERIOD, **names)
    again = document("run", desk.study, "--period", PERIOD, **names)
    assert first["releases"][0]["status"] == "released"
    assert again["releases"][0]["status"] == "already-released"
    stored = Archive(place).list()
    assert {name.partition("/")[0] for name in stored} >= {"anchors", "keys", "releases"}
    assert list((desk.home / "archive").rglob("*")) == []
    assert first["releases"][0]["crate"].startswith(place)
    assert document("audit", desk.study, **names)["ok"]
    anchor = min(name for name in stored if name.startswith("anchors/"))
    fsspec.filesystem("s3").rm_file(f"{place}/{anchor}")
    audited = json.loads(dpbayes("audit", desk.study, "--json", **names).stdout)
    assert [check["check"] for check in audited["checks"] if not check["ok"]] == ["every ledger entry is anchored"]


@pytest.mark.slow
def test_a_release_killed_between_any_two_objects_is_charged_once_and_completed(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPBAYES_HOME", raising=False)
    monkeypatch.delenv("DPBAYES_LEDGER_URL", raising=False)
    for moment in range(1, 40, 2):
        monkeypatch.setenv("DPBAYES_ARCHIVE_URL", f"{object_store.new_bucket()}/archive")
        place = Place(tmp_path / str(moment))
        command = [sys.executable, "-c", KILLED, str(place.desk.study), PERIOD, str(moment)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
        assert len(place.digests()) == 1
        place.repaired(place.digests())
        if done.returncode == 0:
            assert moment > 5  # there were objects to die between: anchors, and the files of a crate
            return
        assert done.returncode == -signal.SIGKILL, done.stderr
    raise AssertionError("the release never finished")
