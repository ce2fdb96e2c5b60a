"""A steward whose table and archive are on an object store: a whole run, and its audit."""

import json

import fsspec
import pytest

from storage.archive import Archive
from tests.support.command import document, dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.object_store import ObjectStore


@pytest.mark.slow
def test_a_run_on_an_object_store_is_archived_there_and_passes_its_audit(desk: Desk, object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/archive"
    tables = object_store.new_bucket()
    fsspec.filesystem("s3").put_file(str(desk.table()), f"{tables}/pay-{PERIOD}.parquet")
    desk.table().unlink()
    desk.edit_study('"data/pay-{period}.parquet"', f'"{tables}/pay-{{period}}.parquet"')
    names = {"cwd": desk.folder, "DPBAYES_ARCHIVE_URL": place, "DPBAYES_HOME": str(desk.folder / "home")}
    dpbayes("ledger", "create", desk.study, check=True, **names)
    first = document("run", desk.study, "--period", PERIOD, **names)
    again = document("run", desk.study, "--period", PERIOD, **names)
    assert first["releases"][0]["status"] == "released"
    assert again["releases"][0]["status"] == "already-released"
    stored = Archive(place).list()
    assert {name.partition("/")[0] for name in stored} >= {"anchors", "keys", "releases"}
    assert list((desk.folder / "home" / "archive").rglob("*")) == []
    assert first["releases"][0]["crate"].startswith(place)
    assert document("audit", desk.study, **names)["ok"]
    anchor = min(name for name in stored if name.startswith("anchors/"))
    fsspec.filesystem("s3").rm_file(f"{place}/{anchor}")
    audited = json.loads(dpbayes("audit", desk.study, "--json", **names).stdout)
    assert [check["check"] for check in audited["checks"] if not check["ok"]] == ["every ledger entry is anchored"]
