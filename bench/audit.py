"""CPU seconds per crate of an audit, relative to reading, hashing and parsing the archive's files once."""

import hashlib
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

MONTHS = 50
ANALYSES = 4
"""Of each of the two releases of a month: ten crates a month."""

ROUNDS = 3
FEW = 1
"""Months of a first audit that loads modules and compiles; it is not measured."""


def publish(folder: Path, months: int) -> int:
    """Make a home with signed crates of two releases a month and several posteriors of each; returns their number."""
    from dpbayes.crates.release import build_release_crate
    from storage.files.archive import Archive
    from storage.files.archive_paths import release_path
    from storage.home.signatures import Signer
    from storage.ledger.anchors import Anchors
    from storage.ledger.ledger import Ledger
    from tests.dpbayes.crates.crate_examples import RELEASES, STAMP, charge

    folder.mkdir(parents=True)
    signer, archive = Signer.create(folder / "keys"), Archive(str(folder / "archive"))
    anchors = Anchors(archive, signer)
    anchors.publish_key()
    crates = 0
    with Ledger.create(f"sqlite:///{folder / 'ledger.db'}", STAMP, public_key=signer.fingerprint) as ledger:
        for month in range(months):
            period = f"{2020 + month // 12}-{1 + month % 12:02}"
            for mechanism in RELEASES:
                entry = charge(ledger, request_of(period), mechanism).to_record()
                files = build_release_crate(entry, study_text(), signer)
                archive.write_folder(release_path(entry), files)
                crates += 1 + analyse(ledger, archive, files, signer, period)
        for entry in ledger.entries():
            anchors.write(entry.to_record())
    return crates


def analyse(ledger: Any, archive: Any, release: dict[str, bytes], signer: Any, period: str) -> int:
    """Publish several posteriors of one release on the ledger and in the archive; returns their number."""
    from dpbayes.crates.contained_releases import sources_of
    from dpbayes.crates.posterior import Provenance, build_posterior_crate
    from dpbayes.crates.publication import publication_of
    from storage.files.archive_paths import path_of
    from tests.dpbayes.crates.crate_examples import STAMP, analysis, drawn, posterior_draws

    digest, provenance = (
        json.loads(release["release.json"])["digest"],
        Provenance(sources=sources_of(release), study_text=study_text()),
    )
    for number in range(ANALYSES):
        draws = [posterior_draws(int(digest[:12], 16) + turn) for turn in (number, number + ANALYSES)]
        files = build_posterior_crate(
            analysis(analysis=name_of(number, release), period=period),
            drawn(draws[0], digest),
            provenance,
            naive=drawn(draws[1], digest, sampler="naive", latent={}),
            software=STAMP.software,
            signer=signer,
        )
        path = path_of(json.loads(files["posterior.json"]))
        ledger.publish("employees", publication_of(path, files), (), stamp=STAMP)
        archive.write_folder(path, files)
    return ANALYSES


def name_of(number: int, release: dict[str, bytes]) -> str:
    """The name of a release's analysis by its number."""
    return f"{json.loads(release['release.json'])['release']}-{number}"


def study_text() -> bytes:
    """The study of the examples with room for every month, and with all the analyses."""
    from tests.dpbayes.crates.crate_examples import RELEASES, STUDY_TEXT

    named = ((f"{release}-{number}", release) for release in RELEASES.values() for number in range(ANALYSES))
    analyses = "".join(f"  {name}: {{release: {release}}}\n" for name, release in named)
    return STUDY_TEXT.replace(b"epsilon: 8}", b"epsilon: 800}").replace(b"epsilon: 1}", b"epsilon: 2}") + (
        analyses.encode()
    )


def request_of(period: str) -> Any:
    """The request of one month's release, under caps that leave room for every month."""
    from tests.dpbayes.crates.crate_examples import request

    plain = request(period)
    lifetime, monthly = plain.account.caps
    caps = (replace(lifetime, limit=Decimal(800)), replace(monthly, limit=Decimal(2)))
    return replace(plain, account=replace(plain.account, caps=caps))


def audited(folder: Path) -> None:
    """What `dpbayes audit` does in this home."""
    from cli.audit import audit_home

    document = audit_home(folder.parent, ())
    assert document["ok"], [check for check in document["checks"] if not check["ok"]]


def read_once(folder: Path) -> None:
    """The least that an audit must do: read and hash every file of every crate, and parse records and draws."""
    from dpbayes.crates.parquet import read_table

    for path in files_of(folder):
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        if path.suffix == ".json":
            json.loads(data)
        elif path.suffix == ".parquet":
            read_table(data, path.name)


def files_of(folder: Path) -> Iterator[Path]:
    """Every file of every crate."""
    for name in ("releases", "posteriors"):
        yield from (path for path in sorted((folder / "archive" / name).rglob("*")) if path.is_file())


def processor_seconds(work: Callable[[Path], None], folder: Path) -> float:
    """CPU seconds of the work in this process and in processes that it started and that ended."""

    def spent() -> float:
        return sum(use.ru_utime + use.ru_stime for use in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))

    start = spent()
    work(folder)
    return spent() - start


def main(months: int = MONTHS) -> None:
    """Print the CPU seconds per crate of an audit, and their ratio to reading everything once."""
    from storage.home.home import NAME

    root = Path(tempfile.mkdtemp())
    try:
        few, many = root / "few" / NAME, root / "many" / NAME
        publish(few, FEW)
        crates = publish(many, months)
        for work in (audited, read_once):
            processor_seconds(work, few)
        rounds = [(processor_seconds(audited, many), processor_seconds(read_once, many)) for _ in range(ROUNDS)]
    finally:
        shutil.rmtree(root)
    audit, least = (statistics.median(each) for each in zip(*rounds, strict=True))
    print(f"audit: CPU time of {crates} crates, relative to reading, hashing and parsing every file once")
    print(f"{'crates':>8}{'audit ms/crate':>16}{'read once ms/crate':>20}{'ratio':>7}")
    print(f"{crates:>8}{1000 * audit / crates:>16.1f}{1000 * least / crates:>20.1f}{audit / least:>7.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
