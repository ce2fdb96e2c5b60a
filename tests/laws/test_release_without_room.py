"""Full disks, archives that cannot be written or reached: said in a sentence, nothing lost, repaired by a re-run."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.disks import Disk
from tests.support.faults import assert_says, fault, faults_of
from tests.support.object_store import ObjectStore
from tests.support.parts import missing
from tests.support.place import Place
from tests.support.postgres import Server, binaries
from tests.support.recorded import recorded_as_named

Test = Callable[..., None]


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DPBAYES_HOME", "DPBAYES_LEDGER_URL", "DPBAYES_ARCHIVE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk.mounted(4) as mounted:
        yield mounted


def refused(place: Place, test: Test, meanwhile: Callable[[], object] = lambda: None) -> str:
    """What a release that cannot be finished says: what the test's decorator says, within its time."""
    began = time.monotonic()
    said = place.refused(meanwhile)
    assert_says(said, faults_of(test)[0].sentence)
    assert time.monotonic() - began < faults_of(test)[0].within
    return said


FULL = "No space left on device. Make the archive reachable and writable, with room left, and run again."


@pytest.mark.slow
@pytest.mark.parametrize("leave", [0, 4 << 10, 16 << 10, 40 << 10, 64 << 10])
def test_a_full_disk_under_the_ledger(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, leave: int) -> None:
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{disk.folder / 'ledger.db'}")
    place = Place(tmp_path)
    disk.fill(leave)
    said = place.refused()
    assert said in (
        "cannot write the ledger: the disk is full. Free some space and run again.",
        "cannot use the ledger: its file cannot be opened or written. Check its disk and folder and run again.",
    )
    disk.free()
    assert place.digests() == []
    place.repaired([])


@pytest.mark.slow
@fault(
    "The disk of the ledger is full",
    "cannot write the ledger: the disk is full. Free some space and run again.",
    exit_code=1,
    within=30,
)
def test_a_disk_that_fills_up_between_the_sum_and_the_commit(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{disk.folder / 'ledger.db'}")
    place = Place(tmp_path)
    assert (
        refused(place, test_a_disk_that_fills_up_between_the_sum_and_the_commit, disk.fill)
        == "cannot write the ledger: the disk is full. Free some space and run again."
    )
    disk.free()
    assert place.digests() == []
    place.repaired([])


@fault(
    "The disk of the archive is full",
    "cannot write ...: No space left on device. Make the archive reachable and writable, with room left, "
    "and run again.",
    exit_code=1,
    within=30,
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("leave", "thing"),
    [
        (0, "anchors/000000003.json"),
        (4 << 10, "anchors/000000003.json"),
        (16 << 10, "releases/pay/"),
        (40 << 10, "releases/pay/"),
    ],
)
def test_a_full_disk_under_the_archive(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, leave: int, thing: str
) -> None:
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", str(disk.folder / "archive"))
    place = Place(tmp_path)
    disk.fill(leave)
    said = refused(place, test_a_full_disk_under_the_archive)
    assert said.startswith(f"cannot write {thing}")
    assert said.endswith(FULL)
    [charged] = place.digests()
    disk.free()
    place.repaired([charged])


@fault(
    "The disk of the vault is full",
    "cannot keep ... in the vault: No space left on device. Make the vault's folder writable.",
    exit_code=1,
    within=30,
)
@pytest.mark.slow
def test_a_full_disk_under_the_vault(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", str(tmp_path / "archive"))
    place = Place(disk.folder / "desk")
    disk.fill()
    assert "in the vault: No space left on device." in refused(place, test_a_full_disk_under_the_vault)
    disk.free()
    assert place.digests() == []
    place.repaired([])


@contextmanager
def files_up_to(size: int) -> Iterator[Callable[[], None]]:
    """Lets this process write no file beyond a size, from the call on to the end of the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@fault(
    "The ledger's file may not grow, or be opened",
    "cannot use the ledger: its file cannot be opened or written. Check its disk and folder and run again.",
    exit_code=1,
    within=30,
)
def test_a_ledger_that_may_not_grow(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with files_up_to(1 << 12) as limit:
        said = refused(place, test_a_ledger_that_may_not_grow, limit)
    assert said == (
        "cannot use the ledger: its file cannot be opened or written. Check its disk and folder and run again."
    )
    assert place.digests() == []
    place.repaired([])


@fault(
    "The archive is read-only",
    "cannot write ...: Read-only file system. Make the archive reachable and writable, with room left, and run again.",
    exit_code=1,
    within=30,
)
@pytest.mark.parametrize("when", ["from the start", "before the commit"])
def test_a_read_only_archive(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", str(disk.folder / "archive"))
    place = Place(tmp_path)
    if when == "from the start":
        disk.make_read_only()
    said = refused(place, test_a_read_only_archive, disk.make_read_only)
    assert said == (
        "cannot write anchors/000000003.json: Read-only file system. Make the archive reachable and writable, "
        "with room left, and run again."
    )
    assert refused(place, test_a_read_only_archive) == said  # it comes to nothing worse, however often it is tried
    [charged] = place.digests()
    disk.make_writable()
    place.repaired([charged])


@fault(
    "Nothing listens where the archive is to be",
    "cannot open the archive on ...: Connection refused. Make the archive reachable and writable, with room left, "
    "and run again.",
    exit_code=1,
    within=30,
)
@pytest.mark.parametrize("place_of_anchors", ["ftp://127.0.0.1:9/archive", "ftp://steward:hidden@127.0.0.1:9/archive"])
def test_an_archive_that_cannot_be_reached_stops_a_release_before_its_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place_of_anchors: str
) -> None:
    place = Place(tmp_path)
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", place_of_anchors)
    with recorded_as_named(tmp_path):
        assert refused(place, test_an_archive_that_cannot_be_reached_stops_a_release_before_its_charge) == (
            "cannot open the archive on ftp: Connection refused. Make the archive reachable and writable, with room "
            "left, and run again."
        )
    monkeypatch.delenv("DPBAYES_ARCHIVE_URL")
    assert place.digests() == []
    place.repaired([])


@pytest.mark.slow
@fault(
    "The object store of the archive is down",
    "cannot list anchors: it does not answer (...). Make the archive reachable and writable, with room left, "
    "and run again.",
    exit_code=1,
    within=30,
)
@pytest.mark.parametrize("when", ["from the start", "before the commit"])
def test_an_object_store_of_anchors_that_is_down(
    tmp_path: Path, mortal_object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", f"{mortal_object_store.new_bucket()}/archive")
    place = Place(tmp_path)
    before = when == "from the start"
    if before:
        mortal_object_store.go_away()
    said = refused(place, test_an_object_store_of_anchors_that_is_down, lambda: before or mortal_object_store.go_away())
    assert said == (
        "cannot list anchors: it does not answer (EndpointConnectionError). Make the archive reachable and writable, "
        "with room left, and run again."
    )
    charged = place.digests()
    assert len(charged) == (0 if before else 1)
    assert (
        refused(place, test_an_object_store_of_anchors_that_is_down) == said
    )  # however often it is tried, nothing more is charged
    assert place.digests() == charged
    mortal_object_store.come_back()
    place.repaired(charged)


@fault(
    "The archive's bucket is not there",
    "cannot ...: no such place, or no such bucket. Make the archive reachable and writable, with room left, and run "
    "again.",
    exit_code=1,
    within=30,
)
def test_a_bucket_that_is_not_there_stops_a_release_before_its_charge(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", "s3://mistyped/archive")
    with recorded_as_named(tmp_path):
        assert "no such place, or no such bucket." in refused(
            place, test_a_bucket_that_is_not_there_stops_a_release_before_its_charge
        )
    monkeypatch.delenv("DPBAYES_ARCHIVE_URL")
    assert place.digests() == []
    place.repaired([])


@fault(
    "The disk of PostgreSQL is full",
    "cannot write the ledger: the disk is full. Free some space and run again.",
    exit_code=1,
    within=30,
)
@pytest.mark.slow
def test_a_full_disk_under_a_postgresql_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = binaries()
    if programs is None:
        missing("PostgreSQL server", "install it with `apt-get install postgresql`")
    with ExitStack() as stack:
        disk = stack.enter_context(Disk.mounted(96))
        disk.folder.chmod(0o755)
        folder = disk.folder / "server"
        folder.mkdir()
        server = Server(folder, programs, small=True)
        stack.callback(server.stop)
        server.start()
        monkeypatch.setenv("DPBAYES_LEDGER_URL", server.url("postgres"))
        place = Place(tmp_path)
        disk.fill()
        for _ in range(2):
            assert (
                refused(place, test_a_full_disk_under_a_postgresql_server)
                == "cannot write the ledger: the disk is full. Free some space and run again."
            )
        disk.free()
        assert place.digests() == []
        place.repaired([])
