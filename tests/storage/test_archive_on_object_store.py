"""The archive on a real S3 endpoint: written once, whatever rivals, deaths and lost answers do."""

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

from dpbayes.crates.fetch import Fetched
from dpbayes.crates.files import load
from dpbayes.crates.format import pack
from dpbayes_core.errors import IntegrityFailure, StudyInvalid
from storage.files.archive import MANIFEST, Archive, ArchiveUnavailable
from storage.files.stores import RemoteStore
from tests.support.command import ROOT
from tests.support.object_store import ObjectStore

FILES = {"one.txt": b"one" * 99, "deep/two.txt": b"two" * 99}
WRITERS = 6

KILLED = """
import os, signal, sys
from storage.files.archive import Archive
from dpbayes.crates.files import load
from dpbayes.crates.format import pack
from dpbayes.crates.fetch import Fetched
from storage.files.stores import RemoteStore

moment, calls, put = int(sys.argv[2]), 0, RemoteStore._put

def deadly(*arguments):
    global calls
    for step in (lambda: None, lambda: put(*arguments)):
        step()
        calls += 1
        if calls == moment:
            os.kill(os.getpid(), signal.SIGKILL)

RemoteStore._put = deadly
Archive(sys.argv[1]).write_folder("crate", {"one.txt": b"one" * 99, "deep/two.txt": b"two" * 99})
"""


def killed_at(moment: int, place: str) -> int:
    return subprocess.run([sys.executable, "-c", KILLED, place, str(moment)], cwd=ROOT, check=False).returncode


def is_whole_or_unfinished_and_is_completed(place: str) -> bool:
    archive = Archive(place)
    finished = archive.exists(f"crate/{MANIFEST}")
    if finished:
        assert archive.read_folder("crate") == FILES
    else:
        with pytest.raises(IntegrityFailure, match=f"{MANIFEST} is missing"):
            archive.read_folder("crate")
    archive.write_folder("crate", FILES)
    assert archive.read_folder("crate") == FILES
    return finished


@pytest.mark.slow
def test_a_folder_killed_before_its_manifest_is_unfinished_and_is_completed(object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/archive"
    assert killed_at(5, place) == -signal.SIGKILL
    assert Archive(place).list() == ["crate/deep/two.txt", "crate/one.txt"]
    assert not is_whole_or_unfinished_and_is_completed(place)


@pytest.mark.slow
def test_a_folder_killed_around_every_write_is_whole_or_unfinished_and_is_completed(object_store: ObjectStore) -> None:
    finished = []
    for moment in range(1, 7):
        place = f"{object_store.new_bucket()}/archive"
        assert killed_at(moment, place) == -signal.SIGKILL
        finished.append(is_whole_or_unfinished_and_is_completed(place))
    assert finished == [False] * 5 + [True]
    assert killed_at(7, f"{object_store.new_bucket()}/archive") == 0  # six moments are all there are


def race(place: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], bytes]:
    """Writers of one name, each with its own bytes, who all looked before anybody wrote: who won, and what stands."""
    looked, look, seen = threading.Barrier(WRITERS), RemoteStore.exists, threading.local()

    def look_together(store: RemoteStore, name: str) -> bool:
        found = look(store, name)
        if not hasattr(seen, "once"):
            seen.once = True
            looked.wait(timeout=60)
        return found

    def write(number: int) -> bytes | None:
        data = b"%d" % number
        try:
            Archive(place).write_once("a/b.json", data)
        except IntegrityFailure:
            return None
        return data

    with monkeypatch.context() as patched, ThreadPoolExecutor(WRITERS) as pool:
        patched.setattr(RemoteStore, "exists", look_together)
        outcomes = list(pool.map(write, range(WRITERS)))
    return [data for data in outcomes if data is not None], Archive(place).read("a/b.json")


def test_of_rivals_who_bring_other_bytes_exactly_one_writes(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        winners, stands = race(object_store.new_bucket(), monkeypatch)
        assert winners == [stands]


@pytest.mark.slow
def test_a_server_without_conditional_writes_lets_rivals_overwrite_each_other_but_no_one_who_came_later(
    mortal_object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal_object_store.forget_conditions()
    place = mortal_object_store.new_bucket()
    winners, stands = race(place, monkeypatch)
    assert len(winners) > 1  # the race above can be lost, and is won by the server's condition alone
    with pytest.raises(IntegrityFailure, match="holds other bytes"):
        Archive(place).write_once("a/b.json", b"later")
    assert Archive(place).read("a/b.json") == stands


@pytest.mark.slow
def test_a_write_whose_answer_was_lost_counts_as_written(mortal_object_store: ObjectStore) -> None:
    archive = Archive(mortal_object_store.new_bucket())
    for attempts in (1, 2):  # repeated by the client library, and given up by it
        name = f"a/{attempts}"
        for _ in range(attempts):
            mortal_object_store.lose_an_answer()
        archive.write_once(name, b"one")
        archive.write_once(name, b"one")
        with pytest.raises(IntegrityFailure, match="holds other bytes"):
            archive.write_once(name, b"two")
        assert archive.read(name) == b"one"


def test_what_another_process_wrote_is_seen_at_once(object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/archive"
    archive, other = Archive(place), fsspec.filesystem("s3", skip_instance_cache=True)
    archive.write_once("a/1", b"x")
    assert archive.list("a") == ["a/1"]
    other.pipe_file(f"{place}/a/2", b"y")
    assert archive.exists("a/2")
    assert archive.list("a") == ["a/1", "a/2"]
    other.rm_file(f"{place}/a/1")
    assert not archive.exists("a/1")


@pytest.mark.slow
def test_a_listing_is_whole_beyond_a_page_of_the_server(object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/archive"
    names = [f"anchors/{number:09d}.json" for number in range(1003)]
    fsspec.filesystem("s3").pipe({f"{place}/{name}": b"" for name in names})
    assert Archive(place).list("anchors") == names


def test_a_bucket_that_is_not_there_is_never_made(object_store: ObjectStore) -> None:
    with pytest.raises(ArchiveUnavailable, match="cannot write a: no such place, or no such bucket"):
        Archive("s3://nobody-made-this/archive").write_once("a", b"")
    assert not fsspec.filesystem("s3").exists("nobody-made-this")


@pytest.mark.slow
def test_a_store_that_is_down_is_one_sentence_for_every_use_and_never_an_empty_archive(
    mortal_object_store: ObjectStore,
) -> None:
    archive = Archive(f"{mortal_object_store.new_bucket()}/archive")
    archive.write_folder("crate", FILES)
    mortal_object_store.go_away()
    for use in (
        lambda: archive.exists("crate/one.txt"),
        lambda: archive.list(),
        lambda: archive.read("crate/one.txt"),
        lambda: archive.write_folder("crate", FILES),
    ):
        with pytest.raises(ArchiveUnavailable, match=r": it does not answer \(\w+\)\. Make the arch") as failed:
            use()
        assert "secret" not in str(failed.value)
    mortal_object_store.come_back()
    assert archive.read_folder("crate") == FILES


def test_an_altered_object_is_found(object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/archive"
    archive, system = Archive(place), fsspec.filesystem("s3")
    archive.write_folder("crate", FILES)
    system.pipe_file(f"{place}/crate/one.txt", b"another")
    with pytest.raises(IntegrityFailure, match=r"one\.txt was altered"):
        archive.read_folder("crate")
    system.rm_file(f"{place}/crate/one.txt")
    with pytest.raises(IntegrityFailure, match=r"one\.txt is missing"):
        archive.read_folder("crate")
    assert sorted(json.loads(archive.read(f"crate/{MANIFEST}"))) == sorted(FILES)


def test_people_are_told_the_url(object_store: ObjectStore) -> None:
    archive = Archive("s3://bucket/archive/")
    assert archive.address("crates/one") == "s3://bucket/archive/crates/one"


def test_a_strangers_crate_is_read_from_a_folder_and_a_zip_and_no_further_than_its_bound(
    object_store: ObjectStore,
) -> None:
    place = f"{object_store.new_bucket()}/shared"
    crate = {"ro-crate-metadata.json": b"{}", "releases/0/entry.json": b"{}" * 99}
    Archive(place).write_folder("crate", crate)
    Archive(place).write_once("crate.zip", pack(crate))
    assert load(f"{place}/crate") == load(f"{place}/crate.zip") == crate
    with pytest.raises(IntegrityFailure, match=r"crate\.zip: it is larger than any crate's"):
        Fetched(place).read("crate.zip", 10)
    with pytest.raises(IntegrityFailure, match="it holds more than 2 files"):
        Fetched(f"{place}/crate").list(2)
    with pytest.raises(StudyInvalid, match="there is no such crate"):
        load(f"{place}/none.zip")
