"""A stranger's crates: whatever lies in one, the command answers in a sentence, within its memory and its time."""

import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from threading import enumerate as threads
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.crates import format
from dpbayes.crates import limits as crate_limits
from dpbayes.crates.contained_releases import CONTAINED, sources_of
from dpbayes.crates.fetch import PROTOCOLS, THREAD, Fetched
from dpbayes.crates.format import ATTESTATION, METADATA, PUBLIC_KEY, attested, pack
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import ONE, PREDICATE, derived_files, predicate_of
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.files import limits
from storage.files.archive import ArchiveUnavailable
from storage.home.signatures import Signer
from tests.dpbayes.crates.crate_examples import STUDY_TEXT, posterior_crate, small_entry
from tests.support.bounded import SECONDS, Answer, Bounded
from tests.support.command import ROOT

MOST_MEMORY = 900  # MB, of which an audit of an honest crate takes about 300
GIGABYTE = 1 << 30
AT = ("--at", "age=40,tenure=3,female=no,region=east")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> dict[str, bytes]:
    from dpbayes.crates.release import build_release_crate

    entry = small_entry(tmp_path_factory.mktemp("ledger"))
    return posterior_crate(build_release_crate(entry, STUDY_TEXT, signer), signer)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bounded]:
    with Bounded(tmp_path_factory.mktemp("bounded")) as command:
        yield command


@pytest.fixture(scope="module")
def audit(command: Bounded, signer: Signer) -> Callable[..., Answer]:
    def run(place: Path | str, *more: str) -> Answer:
        return command("audit", "--crate", place, "--key", signer.fingerprint, *more)

    return run


def refused(answer: Answer, words: str, exit_code: int = 5) -> None:
    """In one sentence and what to do, with little memory."""
    assert answer.exit_code == exit_code, answer.output
    assert words in answer.output
    assert "unforeseen" not in answer.output
    assert answer.peak < MOST_MEMORY


def zipped(place: Path, files: dict[str, bytes], packing: int = zipfile.ZIP_STORED, **odd: bytes) -> Path:
    """A zip of a crate's files, the odd ones packed in a way of their own."""
    with zipfile.ZipFile(place, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        for name, data in odd.items():
            archive.writestr(name, data, packing)
    return place


def test_the_harness_passes_what_is_whole(
    crate: dict[str, bytes], audit: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "crate.zip").write_bytes(pack(crate))
    answer = audit(tmp_path / "crate.zip")
    assert answer.exit_code == 0, answer.output
    assert answer.peak < MOST_MEMORY
    assert audit(zipped(tmp_path / "deflated.zip", {}, zipfile.ZIP_DEFLATED, **crate)).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_files_are_stored_or_deflated_and_nothing_else(
    crate: dict[str, bytes], audit: Callable[..., Answer], tmp_path: Path, packing: int
) -> None:
    small = zipped(tmp_path / "small.zip", crate, packing, notes=b"hello")
    refused(audit(small), "a file in it is packed otherwise than stored or deflated. Fetch the crate again.")
    place = tmp_path / "bomb.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr(METADATA, b"{}")
        with archive.open(zipfile.ZipInfo("draws.parquet"), "w") as file:
            file.write(bytes(1 << 20))
    with zipfile.ZipFile(place, "a", packing) as archive, archive.open("more.parquet", "w") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    refused(audit(place), "packed otherwise than stored or deflated")


@pytest.mark.slow
def test_a_zip_unpacks_to_no_more_than_so_many_times_its_size(audit: Callable[..., Answer], tmp_path: Path) -> None:
    place = tmp_path / "bomb.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, b"{}")
        with archive.open("draws.parquet", "w") as file:
            for _ in range(300):
                file.write(bytes(1 << 20))
    assert place.stat().st_size < 2 << 20
    refused(audit(place), "it unpacks to more than 64 times its size. Fetch the crate again.")


def test_a_zip_that_lies_of_its_sizes_is_read_no_further_than_it_says(
    audit: Callable[..., Answer], tmp_path: Path
) -> None:
    place = tmp_path / "liar.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, b"{}")
        archive.writestr("study.yaml", bytes(1 << 20) * 100)
    data = place.read_bytes()
    assert data.count(struct.pack("<L", 100 << 20)) >= 2
    place.write_bytes(data.replace(struct.pack("<L", 100 << 20), struct.pack("<L", 100)))
    refused(audit(place), "a file in it is larger than its zip says")


def test_a_file_larger_than_any_of_its_kind_is_refused(audit: Callable[..., Answer], tmp_path: Path) -> None:
    big = zipped(tmp_path / "big.zip", {METADATA: b"{}", "public-key.pem": bytes(20_000)})
    refused(audit(big), "a file in it is larger than the 16,384 bytes that one of its kind may have")


@pytest.mark.slow
def test_a_hundred_thousand_files_are_refused(audit: Callable[..., Answer], tmp_path: Path) -> None:
    place = zipped(tmp_path / "many.zip", {METADATA: b"{}", **{f"f{number}": b"" for number in range(100_000)}})
    refused(audit(place), "it holds more than 10,000 files")
    data = bytearray(place.read_bytes())
    end = data.rfind(b"PK\x05\x06")
    data[end + 8 : end + 12] = struct.pack("<HH", 5, 5)  # says that they are five
    place.write_bytes(data)
    refused(audit(place), "its zip's directory is longer than any crate's")


def test_names_that_some_file_systems_take_for_one_are_refused(audit: Callable[..., Answer], tmp_path: Path) -> None:
    for name, other in (("study.yaml", "Study.YAML"), ("\u00e9.json", "e\u0301.json"), ("a", "a/b")):
        place = zipped(tmp_path / "twice.zip", {METADATA: b"{}", name: b"1", other: b"2"})
        refused(audit(place), "it holds a file twice")


def test_links_encryption_and_overlaps_in_a_zip_are_refused(audit: Callable[..., Answer], tmp_path: Path) -> None:
    place = tmp_path / "odd.zip"
    link = zipfile.ZipInfo("study.yaml")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr(METADATA, b"{}")
        archive.writestr(link, "/etc/passwd")
    refused(audit(place), "it holds a link or a device")
    whole = zipped(place, {METADATA: b"{}", "study.yaml": b"{}"}).read_bytes()
    place.write_bytes(changed_directory(whole, 8, struct.pack("<H", 1)))
    refused(audit(place), "a file in it is encrypted")
    place.write_bytes(changed_directory(whole, 42, struct.pack("<L", 0)))
    refused(audit(place), "files in it lie over each other")


def changed_directory(data: bytes, at: int, value: bytes) -> bytes:
    """The zip with other bytes in the last entry of its directory."""
    place = data.rfind(b"PK\x01\x02") + at
    return data[:place] + value + data[place + len(value) :]


def test_a_folder_is_read_without_its_links_and_pipes(
    crate: dict[str, bytes], audit: Callable[..., Answer], tmp_path: Path
) -> None:
    for name, make in (
        ("study.yaml", lambda place: os.mkfifo(place)),
        ("software.json", lambda place: place.symlink_to("/dev/zero")),
        ("more", lambda place: place.symlink_to(tmp_path, target_is_directory=True)),
    ):
        folder = tmp_path / f"crate-{name}"
        folder.mkdir()
        for each, data in crate.items():
            if each != name:
                (folder / each).write_bytes(data)
        make(folder / name)
        refused(audit(folder), f"{name} is a link or no plain file, and a crate has none")


def test_a_sparse_file_of_a_folder_is_not_read(audit: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / ATTESTATION).write_bytes(b"{}")
    with (tmp_path / "draws.parquet").open("wb") as file:
        file.truncate(20 * GIGABYTE)
    refused(audit(tmp_path), "draws.parquet is larger than any crate's")


class Endless(BaseHTTPRequestHandler):
    """A web server that says little of what it sends, and sends without end."""

    whole: ClassVar[bytes]

    def do_HEAD(self) -> None:
        self._head()

    def do_GET(self) -> None:
        self._head()
        if "whole" in self.path:
            self.wfile.write(self.whole)
            return
        with suppress(OSError):
            while True:
                self.wfile.write(bytes(1 << 20))

    def _head(self) -> None:
        self.send_response(200)
        if "stated" in self.path:
            self.send_header("Content-Length", str(20 * GIGABYTE))
        if "whole" in self.path:
            self.send_header("Content-Length", str(len(self.whole)))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def web(crate: dict[str, bytes]) -> Iterator[str]:
    Endless.whole = pack(crate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_url_is_read_no_further_than_a_crate_is_long(web: str, command: Bounded) -> None:
    refused(command("predict", f"{web}/stated.zip", "--at", "age=40"), "stated.zip: it is larger than any crate's")
    assert command("predict", f"{web}/whole.zip?version=3", *AT).exit_code == 0
    refused(command("analyse", "--from", f"{web}/folder"), "a web server does not list a folder", exit_code=2)


def test_a_url_without_a_size_is_read_no_further_either(web: str) -> None:
    with pytest.raises(IntegrityFailure, match="larger than any crate's"):
        Fetched(web).read("unstated.zip", 50 << 20)


@pytest.mark.slow
def test_a_url_that_takes_too_long_is_given_up_and_read_no_further(web: str) -> None:
    with pytest.raises(ArchiveUnavailable, match="it took longer than 600 seconds to fetch"):
        Fetched(web, seconds=0.5).read("unstated.zip", 1 << 40)
    for thread in [each for each in threads() if each.name == THREAD]:
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "place", ["simplecache::{web}/stated.zip", "zip://x.zip::{web}/y.zip", "ftp://127.0.0.1/x.zip"]
)
def test_a_crate_comes_from_a_file_or_one_plain_url(web: str, command: Bounded, place: str) -> None:
    for arguments in (
        ("predict", place.format(web=web), "--at", "age=40"),
        ("analyse", "--from", place.format(web=web)),
    ):
        answer = command(*arguments)
        refused(answer, "crates are read from files and from one plain URL of abfs, abfss,", exit_code=2)


def test_the_limits_are_those_that_auditors_read() -> None:
    text = " ".join((ROOT / "docs" / "auditing.md").read_text().split())
    mebibytes = {"a crate, all its files": limits.MOST_BYTES, "each file that is not Parquet": format.MOST_TEXT}
    mebibytes |= {"the footer of a Parquet file": format.MOST_FOOTER}
    for thing, size in mebibytes.items():
        assert f"| {size >> 20:,} MiB | {thing}" in text
    assert (
        f"; {format.MOST_STATEMENT >> 20} MiB a statement or manifest, {format.MOST_KEY:,} bytes a public key" in text
    )
    assert f"| {format.MOST_FILES:,} | files of a crate; {format.LONGEST_NAME} characters each name" in text
    assert f"| {format.MOST_UNPACKED} times its size | what a zip unpacks to" in text
    assert f"where that is more than {format.UNPACKED_FREELY >> 20} MiB |" in text
    assert f"| {format.MOST_SECONDS} seconds | fetching" in text
    assert f"| {limits.MOST_NODES:,} values, {limits.DEEPEST} levels deep | each JSON document" in text
    assert f"{limits.MOST_LEDGER_NODES:,} values in {limits.MOST_BYTES >> 20:,} MiB" in text
    assert format.MOST_RELEASES == format.MOST_VARIABLES == 1000
    assert "| 1,000 | releases in one crate; columns," in text
    assert f"| {crate_limits.MOST_CELLS:,} | cells" in text
    assert crate_limits.MOST_CELLS == crate_limits.MOST_PLACES
    for protocol in PROTOCOLS:
        assert f"`{protocol}`" in text


@pytest.fixture(scope="module")
def loud(crate: dict[str, bytes], signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crate whose caveat drives a terminal, is written from right to left, adds a line and is marked up."""
    record = json.loads(crate["posterior.json"])
    record["sampler"]["caveat"] = LOUD
    record["diagnostics"]["gate"][LOUD] = 1
    files = {**crate, "posterior.json": canonical_json(record)}
    files = {name: data for name, data in files.items() if name not in (ATTESTATION, PUBLIC_KEY)}
    given = {name: files[name] for name in ("study.yaml", *ONE)}
    draws, software = read_draws(files["draws.parquet"]), json.loads(files["software.json"])
    files |= derived_files(record, sources_of(files), draws, given, software=software, by=signer.fingerprint)
    place = tmp_path_factory.mktemp("loud") / "loud.zip"
    place.write_bytes(pack(attested(files, PREDICATE, predicate_of(record), signer)))
    return place


LOUD = "\x1b[2J\x9b31m\u202egnola\u2066\n  converged\r[red]loud[/red] [link=http://x]y[/link] :warning:"
SHOWN = "\\x1b[2J\\x9b31m\\u202egnola\\u2066\\n  converged\\r[red]loud[/red] [link=http://x]y[/link] :warning:"


def test_what_a_crate_says_is_shown_and_not_obeyed(loud: Path, command: Bounded) -> None:
    shown = command("predict", loud, *AT).output
    (line,) = (each for each in shown.splitlines() if "caveat" in each)
    assert line.isprintable()
    assert line.endswith(SHOWN)
    document = command("predict", loud, *AT, "--json")
    assert document.output.rstrip("\n").isprintable()
    assert document.document["caveat"] == LOUD


def forged(
    crate: dict[str, bytes],
    signer: Signer,
    place: Path,
    change: Callable[[dict[str, Any]], None] | None = None,
    **files: bytes,
) -> Path:
    """The posterior's crate with another record or other files, signed by its maker."""
    record = json.loads(crate["posterior.json"])
    predicate = predicate_of(record)
    if change is not None:
        change(record)
    files = {**crate, "posterior.json": canonical_json(record), **files}
    files = {name: data for name, data in files.items() if name not in (ATTESTATION, PUBLIC_KEY)}
    place.write_bytes(pack(attested(files, PREDICATE, predicate, signer)))
    return place


def entry_with(crate: dict[str, bytes], change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """The ledger entry in a crate with a changed payload or release."""
    entry = json.loads(crate["entry.json"])
    release = json.loads(entry["release"])
    change(entry["payload"], release)
    entry["release"] = canonical_json(release).decode()
    return canonical_json(entry)


@pytest.mark.parametrize(("name", "value"), [("chains", 10**9), ("draws", 10**9), ("seed", 10**99), ("chains", "4")])
def test_nobody_draws_again_what_no_study_may_ask_for(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], tmp_path: Path, name: str, value: Any
) -> None:
    def change(record: dict[str, Any]) -> None:
        record["request"][name] = value

    place = forged(crate, signer, tmp_path / "crate.zip", change)
    refused(audit(place, "--replay"), "posterior.json asks for what no study may ask for")


def test_nobody_draws_again_more_than_a_crate_brings_along(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], tmp_path: Path
) -> None:
    def change(record: dict[str, Any]) -> None:
        record["request"] |= {"chains": 64, "draws": 100_000}
        record["diagnostics"] |= {"chains": 64, "draws": 100_000}

    place = forged(crate, signer, tmp_path / "crate.zip", change)
    refused(audit(place, "--replay"), "it holds far fewer draws than it asks for")


@pytest.mark.slow
def test_a_hundred_million_rows_in_a_short_file_are_not_read(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], tmp_path: Path
) -> None:
    """A table that says one value so many times is short, until somebody unpacks it."""
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, dtype=np.int32)), pa.array([1.0]))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema([("chain", values.type)]), compression="none", store_schema=False) as file:
        for _ in range(100):
            file.write_table(pa.table({"chain": values}))
    bomb = sink.getvalue().to_pybytes()
    assert len(bomb) < 1 << 20
    for name in ("draws.parquet", "noisy.parquet"):
        place = forged(crate, signer, tmp_path / "crate.zip", **{name: bomb})
        refused(audit(place, "--replay"), "is packed as dpbayes packs none")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "it is nested deeper than 64 levels"),
        (b"[" + b"[]," * 5_000_000 + b"[]]", "it holds more than 4,000,000 values"),
        (b'"' + b'\\"' * 5_000_000, "cannot read"),
    ],
    ids=["deep", "wide", "quoted"],
)
def test_json_deeper_or_wider_than_any_crates_is_not_parsed(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], tmp_path: Path, data: bytes, words: str
) -> None:
    refused(audit(forged(crate, signer, tmp_path / "crate.zip", **{"software.json": data, "entry.json": data})), words)


def test_a_release_larger_than_any_is_not_worked_out(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], command: Bounded, tmp_path: Path
) -> None:
    def columns(_: dict[str, Any], release: dict[str, Any]) -> None:
        release["schema"]["covariates"] = [
            {"kind": "continuous", "name": f"x{number}", "bounds": [0, 1]} for number in range(10_000)
        ]

    def levels(_: dict[str, Any], release: dict[str, Any]) -> None:
        some = [f"l{number}" for number in range(1000)]
        release["schema"]["covariates"] = [
            {"kind": "factor", "name": f"x{number}", "levels": some} for number in range(200)
        ]

    def cells(_: dict[str, Any], release: dict[str, Any]) -> None:
        names = [f"n{number}" for number in range(40)]
        nodes = [{"kind": "factor", "name": name, "levels": ["a", "b"]} for name in names]
        release |= {"kind": "bayes-net", "schema": {"nodes": nodes, "parents": {names[-1]: names[:-1]}}}

    def grid(_: dict[str, Any], release: dict[str, Any]) -> None:
        release["mechanism"]["grid"] = 10**12

    def sizes(_: dict[str, Any], release: dict[str, Any]) -> None:
        release["mechanism"]["sizes"] = [10**12]

    def rows(_: dict[str, Any], release: dict[str, Any]) -> None:
        release["noisy"]["rows"] = 10**1000

    for change, words in (
        (columns, "more than 1,000 columns, or levels of one"),
        (levels, "more than 1,000 variables"),
        (cells, "the tables of its release have more than 1,048,576 cells"),
        (grid, "its mechanism counts more than 1,048,576 places"),
        (sizes, "its mechanism counts more than 1,048,576 places"),
        (rows, "more than 1,000,000,000,000 rows"),
    ):
        place = forged(crate, signer, tmp_path / "crate.zip", **{"entry.json": entry_with(crate, change)})
        for answer in (audit(place, "--replay"), command("analyse", "--from", place), command("predict", place, *AT)):
            refused(answer, words)


def test_a_cap_of_a_thousand_million_digits_is_not_written_out(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], tmp_path: Path
) -> None:
    def change(payload: dict[str, Any], _: dict[str, Any]) -> None:
        for debit in payload["debits"]:
            if debit["cap"]:
                debit["cap"]["limit"] = "1e999999999"

    place = forged(crate, signer, tmp_path / "crate.zip", **{"entry.json": entry_with(crate, change)})
    refused(audit(place), "it lacks what this check needs, or holds something else there")


@pytest.mark.slow
def test_a_hundred_thousand_releases_are_not_gone_through(
    crate: dict[str, bytes], signer: Signer, audit: Callable[..., Answer], tmp_path: Path
) -> None:
    """By their number, before any is read: nine thousand files pass as a crate's, the releases in them do not."""
    held = {f"releases/{number}/entry.json": b"{}" for number in range(9000)}
    refused(audit(forged(crate, signer, tmp_path / "crate.zip", **held)), "it holds more than 1,000 releases")
    many = {f"releases/{number}/entry.json": b"{}" for number in range(100_000)}
    refused(audit(zipped(tmp_path / "many.zip", {METADATA: b"{}", **many})), "it holds more than 10,000 files")


def test_nothing_is_parsed_before_a_key_that_was_named_vouches_for_it(
    crate: dict[str, bytes], audit: Callable[..., Answer], command: Bounded, signer: Signer, tmp_path: Path
) -> None:
    """A crate that only its own key signed, and one that was changed since, stay closed."""
    stranger = Signer.create(tmp_path / "keys")
    bad = b"\xff no JSON"
    signed_by_others = forged(crate, stranger, tmp_path / "crate.zip", **{"entry.json": bad})
    altered = tmp_path / "altered.zip"
    altered.write_bytes(pack({**crate, "entry.json": bad, "more.json": bad}))
    own = tmp_path / "inside.zip"
    inside = {f"releases/0/{name}": data for name, data in crate.items() if name in CONTAINED}
    own.write_bytes(pack({METADATA: b"{}", "posterior.json": bad, **inside, "releases/0/entry.json": bad}))
    for place, words in (
        (signed_by_others, f"public-key.pem is the key {stranger.fingerprint}, which is none of those trusted"),
        (altered, "more.json was added; entry.json was altered"),
        (own, "entry.json of the release 0 was altered"),
    ):
        answer = audit(place, "--json", "--replay")
        assert answer.exit_code == 5
        assert [each["ok"] for each in answer.document["checks"]] == [False]
        advice = ". If it is an earlier key of the agency's, add `--ledger LEDGER.json`, or name that key"
        said = f"{words}; nothing in it was read{advice if place == signed_by_others else ''}"
        assert answer.document["checks"][0]["detail"] == said
        refused(command("analyse", "--from", place, "--key", signer.fingerprint), f"{words}; nothing in it was read")


@pytest.mark.slow
def test_an_exported_ledger_is_read_within_bounds(command: Bounded, signer: Signer, tmp_path: Path) -> None:
    def audited(place: Path) -> Answer:
        return command("audit", "--ledger", place, "--key", signer.fingerprint)

    place = tmp_path / "ledger.json"
    place.write_bytes(b"[" * 1_000_000)
    refused(audited(place), "it is nested deeper than 64 levels")
    place.write_bytes(b"[" + b"[]," * 11_000_000 + b"[]]")
    refused(audited(place), "it holds more than 20,000,000 values")
    with place.open("wb") as file:
        file.truncate(20 * GIGABYTE)
    refused(audited(place), "it is no plain file, or larger than any ledger")
    place.unlink()
    os.mkfifo(place)
    refused(audited(place), "it is no plain file, or larger than any ledger")
