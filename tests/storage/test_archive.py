import json
import re
import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpbayes_core.errors import IntegrityFailure, StudyInvalid
from storage.files.archive import MANIFEST, Archive, ArchiveUnavailable, checked_name

FILES = {"release.json": b'{"a":1}', "draws/part-0.parquet": bytes(range(256)) * 40, "empty.txt": b""}

KILLED = """
import os, signal, sys
from storage.files.archive import Archive

action, root, moment = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = 0

def deadly(call):
    def counted(*arguments, **options):
        global calls
        calls += 1
        if calls == moment:
            if call.__name__ == "fsync" and not os.path.isdir(f"/proc/self/fd/{arguments[0]}"):
                os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return counted

for name in ("open", "fsync", "link", "unlink", "mkdir"):
    setattr(os, name, deadly(getattr(os, name)))
if action == "file":
    Archive(root).write_once("a/b.bin", bytes(range(256)) * 40)
else:
    Archive(root).write_folder("crate", {"one.txt": b"one" * 99, "deep/two.txt": b"two" * 99})
"""


def killed_at_every_moment(action: str, tmp_path: Path, judge: Callable[[Archive], None]) -> int:
    for moment in range(1, 100):
        root = tmp_path / str(moment)
        child = subprocess.run([sys.executable, "-c", KILLED, action, str(root), str(moment)], check=False)
        judge(Archive(str(root)))
        if child.returncode == 0:
            return moment - 1
        assert child.returncode == -signal.SIGKILL
    raise AssertionError("the writer never finished")


@pytest.fixture(params=["local", "file url", "memory", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    if request.param == "s3":
        return Archive(f"{request.getfixturevalue('object_store').new_bucket()}/archive")
    places = {
        "local": str(tmp_path / "archive"),
        "file url": f"file://{tmp_path}/archive",
        "memory": f"memory://{uuid.uuid4()}/archive",
    }
    return Archive(places[request.param])


def test_the_same_bytes_twice_are_fine_and_other_bytes_are_refused(archive: Archive) -> None:
    archive.write_once("a/b.json", b"one")
    archive.write_once("a/b.json", b"one")
    with pytest.raises(IntegrityFailure, match=r"a/b\.json"):
        archive.write_once("a/b.json", b"two")
    assert archive.read("a/b.json") == b"one"


def test_a_file_that_was_never_written_is_named(archive: Archive) -> None:
    assert not archive.exists("a.json")
    with pytest.raises(IntegrityFailure, match=r"a\.json"):
        archive.read("a.json")


def test_listing_names_files_below_a_folder_only(archive: Archive) -> None:
    for name in ("a/2", "a/1", "a/deep/3", "ab/4"):
        archive.write_once(name, b"x")
    assert archive.list("a") == archive.list("a/") == ["a/1", "a/2", "a/deep/3"]
    assert archive.list() == ["a/1", "a/2", "a/deep/3", "ab/4"]
    assert archive.list("nothing") == []


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "..", "../a", "a/../b", "a/..", "a//b", "a/", "./a", "a\\b", "a\0b", "a\nb", "c:a", ".tmp/a"],
)
def test_a_name_that_leaves_its_folder_is_refused(archive: Archive, name: str) -> None:
    for use in (
        lambda: checked_name(name),
        lambda: archive.write_once(name, b""),
        lambda: archive.read(name),
        lambda: archive.exists(name),
        lambda: archive.write_folder(name, {}),
        lambda: archive.write_folder("folder", {name: b""}),
        lambda: archive.address(name),
    ):
        with pytest.raises(IntegrityFailure):
            use()
    assert archive.list() == []


def test_a_folder_reads_back_as_written_and_its_manifest_is_its_digest(archive: Archive) -> None:
    digest = archive.write_folder("crates/one", FILES)
    assert archive.write_folder("crates/one", dict(reversed(FILES.items()))) == digest
    assert archive.read_folder("crates/one") == FILES
    assert sorted(json.loads(archive.read(f"crates/one/{MANIFEST}"))) == sorted(FILES)


def test_a_finished_folder_is_never_changed(archive: Archive) -> None:
    archive.write_folder("crate", FILES)
    for name, other in {
        "empty.txt": {**FILES, "empty.txt": b"more"},
        "new.txt": {**FILES, "new.txt": b""},
        "release.json": {name: data for name, data in FILES.items() if name != "release.json"},
    }.items():
        with pytest.raises(IntegrityFailure, match=f"{name} would change"):
            archive.write_folder("crate", other)
        assert archive.read_folder("crate") == FILES


def test_a_finished_folder_takes_back_a_lost_file_and_refuses_to_hide_an_altered_one(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    archive.write_folder("crate", FILES)
    (tmp_path / "crate" / "empty.txt").unlink()
    archive.write_folder("crate", FILES)
    assert archive.read_folder("crate") == FILES
    (tmp_path / "crate" / "empty.txt").write_bytes(b"altered")
    with pytest.raises(IntegrityFailure, match=r"empty\.txt"):
        archive.write_folder("crate", FILES)


def test_an_unfinished_folder_is_refused_and_completed_by_the_next_write(archive: Archive) -> None:
    archive.write_once("crate/release.json", b"of an earlier attempt")
    archive.write_once("crate/empty.txt", b"")
    with pytest.raises(IntegrityFailure, match=MANIFEST):
        archive.read_folder("crate")
    archive.write_folder("crate", FILES)
    assert archive.read_folder("crate") == FILES


def test_completing_a_folder_never_takes_away_a_file_it_does_not_know(archive: Archive) -> None:
    archive.write_folder("crates/one", FILES)
    with pytest.raises(IntegrityFailure, match="one"):
        archive.write_folder("crates", FILES)
    assert archive.read_folder("crates/one") == FILES


def test_a_folder_cannot_bring_its_own_manifest(archive: Archive) -> None:
    with pytest.raises(IntegrityFailure, match=MANIFEST):
        archive.write_folder("crate", {MANIFEST: b"{}"})


def test_missing_altered_and_extra_files_are_named(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    archive.write_folder("crate", FILES)
    draws = tmp_path / "crate" / "draws" / "part-0.parquet"
    draws.write_bytes(FILES["draws/part-0.parquet"][:-1] + b"\0")
    with pytest.raises(IntegrityFailure, match=r"draws/part-0\.parquet was altered"):
        archive.read_folder("crate")
    draws.unlink()
    with pytest.raises(IntegrityFailure, match=r"draws/part-0\.parquet is missing"):
        archive.read_folder("crate")
    draws.write_bytes(FILES["draws/part-0.parquet"])
    (tmp_path / "crate" / "extra.txt").write_bytes(b"")
    with pytest.raises(IntegrityFailure, match=r"extra\.txt is not in its manifest"):
        archive.read_folder("crate")


def test_any_changed_byte_of_a_folder_is_found(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    archive.write_folder("crate", {"a.txt": b"a few bytes", "b.txt": b"more"})
    for path in sorted((tmp_path / "crate").iterdir()):
        whole = path.read_bytes()
        for place in range(len(whole)):
            for mask in (1, 32, 128):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
                with pytest.raises(IntegrityFailure):
                    archive.read_folder("crate")
        path.write_bytes(whole)
    assert archive.read_folder("crate")


@pytest.mark.parametrize("forged", [b"[]", b"3", b"null", b"{", b'{"../secret":"00"}', b'{"a.txt": "0"}', b"[" * 9999])
def test_a_forged_manifest_is_an_integrity_failure(tmp_path: Path, forged: bytes) -> None:
    archive = Archive(str(tmp_path))
    archive.write_folder("crate", {"a.txt": b""})
    (tmp_path / "crate" / MANIFEST).write_bytes(forged)
    with pytest.raises(IntegrityFailure):
        archive.read_folder("crate")


@pytest.mark.slow
def test_a_file_killed_at_any_moment_is_whole_or_absent_and_is_completed_by_the_next_write(tmp_path: Path) -> None:
    whole = bytes(range(256)) * 40
    seen: set[bool] = set()

    def judge(archive: Archive) -> None:
        written = archive.exists("a/b.bin")
        seen.add(written)
        assert archive.list() == (["a/b.bin"] if written else [])
        assert not written or archive.read("a/b.bin") == whole
        archive.write_once("a/b.bin", whole)
        assert archive.list() == ["a/b.bin"]
        assert archive.read("a/b.bin") == whole
        assert not list(Path(archive.address("a")).parent.rglob("*.part"))

    assert killed_at_every_moment("file", tmp_path, judge) >= 6
    assert seen == {False, True}


@pytest.mark.slow
def test_a_folder_killed_at_any_moment_is_finished_or_unfinished_and_is_completed(tmp_path: Path) -> None:
    files = {"one.txt": b"one" * 99, "deep/two.txt": b"two" * 99}
    seen: set[bool] = set()

    def judge(archive: Archive) -> None:
        finished = archive.exists(f"crate/{MANIFEST}")
        seen.add(finished)
        assert not finished or archive.read_folder("crate") == files
        archive.write_folder("crate", files)
        assert archive.read_folder("crate") == files

    assert killed_at_every_moment("folder", tmp_path, judge) >= 18
    assert seen == {False, True}


def test_of_rival_writers_of_one_name_exactly_one_wins(tmp_path: Path) -> None:
    def attempt(number: int) -> bytes | None:
        data = str(number).encode() * 1000
        try:
            Archive(str(tmp_path)).write_once("a/prize", data)
        except IntegrityFailure:
            return None
        return data

    with ThreadPoolExecutor(8) as pool:
        winners = [data for data in pool.map(attempt, range(32)) if data is not None]
    assert winners == [Archive(str(tmp_path)).read("a/prize")]


def test_rival_writers_of_one_folder_leave_one_whole_folder(tmp_path: Path) -> None:
    def attempt(number: int) -> bool:
        try:
            Archive(str(tmp_path)).write_folder("crate", {"a": b"%d" % number, "b": b"%d" % number})
        except IntegrityFailure:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1
    files = Archive(str(tmp_path)).read_folder("crate")
    assert files["a"] == files["b"]


def test_a_full_disk_is_one_sentence_and_a_later_write_repairs_it(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (4096, hard)
    )  # the kernel refuses the rest of the file, as a full disk does
    try:
        with pytest.raises(ArchiveUnavailable, match=r"cannot write big\.bin") as failure:
            archive.write_once("big.bin", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.value.exit_code == 1
    assert archive.list() == []
    archive.write_once("big.bin", b"x" * 100_000)
    assert archive.read("big.bin") == b"x" * 100_000


@pytest.mark.parametrize("place", ["occupied", "/proc/self/archive"])
def test_an_archive_that_cannot_be_written_is_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "occupied").write_bytes(b"a file where the archive should be")
    archive = Archive(str(tmp_path / place))
    with pytest.raises(ArchiveUnavailable, match=r"cannot write a\.txt: .+\. Make the archive reachable"):
        archive.write_once("a.txt", b"")
    with pytest.raises(ArchiveUnavailable):
        archive.write_folder("crate", FILES)


def test_an_unknown_protocol_is_refused_without_repeating_its_password() -> None:
    with pytest.raises(StudyInvalid) as failure:  # a slip in an address: nothing that waiting would mend
        Archive("nonsense://user:hunter2@host/archive")
    assert "nonsense" in str(failure.value)
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize("url", ["abfs://container@account/archive", "gs://steward:hunter2@bucket/archive"])
def test_an_archive_without_its_library_is_one_sentence_that_says_which(url: str) -> None:
    with pytest.raises(ArchiveUnavailable) as failure:
        Archive(url)
    assert re.fullmatch(
        r"cannot open the archive on \w+: the library for it is not here\. .*[Ii]nstall .+, and run again\.",
        str(failure.value),
    )
    assert "hunter2" not in str(failure.value)


def test_people_are_told_where_files_are(tmp_path: Path) -> None:
    local, remote = Archive(str(tmp_path)), Archive("memory://shelf/archive")
    assert local.address("crates/one") == str(tmp_path / "crates" / "one")
    assert remote.address("crates/one") == "memory:///shelf/archive/crates/one"


def test_a_local_archive_needs_no_fsspec(tmp_path: Path) -> None:
    program = (
        "import sys; from storage.files.archive import Archive; Archive(sys.argv[1]).list(); "
        "assert 'fsspec' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
