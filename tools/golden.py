"""How tests/golden/homes and tests/golden/documents were recorded, on 2026-11-20, by real commands.

`python -m tools.golden FAMILY NEW_FOLDER` makes and freezes a home; `python -m tools.golden documents NEW_FOLDER`
writes the documents that are not recorded yet. Nothing is recorded twice: users have such files, and a test that
fails on them has found a change that users would notice. A new family gets a new folder.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.command import DPBAYES, clean_environment, document, dpbayes
from tests.support.golden import HERE, HOMES, NOWHERE, Case, crates, invoke, restore, trusting

ACTOR = {"DPBAYES_ACTOR": "steward", "OPENBLAS_NUM_THREADS": "1"}
PUBLIC = ("archive", "ledger.db", "places.json")
"""The public parts of a home: never keys, vault, Prefect's database or checkpoints."""

Command = tuple[str, ...]

STEPS: dict[str, tuple[Command, ...]] = {
    "wages": (
        ("run", "study.yaml", "--period", "2026-01"),
        ("run", "networks.yaml", "--period", "2026-01"),
        ("run", "questions.yaml", "--period", "2026-02"),
        ("inspect", "study.yaml", "--period", "2026-03"),
        ("release", "study.yaml", "--period", "2026-03"),
        ("ledger", "rotate-key", "--reason", "golden"),
        ("ledger", "raise", "study.yaml", "per-period", "2", "--reason", "golden"),
        ("release", "study.yaml", "--period", "2026-03", "--revision", "2", "--reason", "golden"),
        ("ledger", "withdraw", "networks.yaml", "schooling-draw", "--period", "2026-01", "--reason", "golden"),
        ("ledger", "close", "study.yaml", "--period", "2026-02", "--reason", "golden"),
        ("ledger", "note", "golden"),
    ),
    "kinds": (
        ("ledger", "create", "kinds.yaml"),
        ("release", "kinds.yaml", "--period", "2026-01"),
        ("analyse", "kinds.yaml", "--period", "2026-01"),
    ),
    "offices": (
        *(("ledger", "create", f"{study}.yaml") for study in ("offices", "movers", "arrivals")),
        ("release", "offices.yaml", "--period", "2026-01"),
        ("run", "offices.yaml", "--period", "2026-02"),
        ("run", "movers.yaml", "--period", "2026-01"),
        ("run", "arrivals.yaml", "--period", "2026-01"),
    ),
}


def write_table(path: Path, seed: int, rows: int = 4000) -> None:
    """Made-up people: pay by age and sex, some of it missing."""
    random = np.random.default_rng(seed)
    age, female = random.uniform(18, 70, rows), random.random(rows) < 0.5
    degree = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    pay = 3 + 0.05 * (age - 45) - 0.5 * female + random.normal(0, 0.7, rows)
    columns = {
        "person": seed * rows + random.permutation(rows),
        "office": np.where(random.random(rows) < 0.6, "n", "s"),
        "pay": np.where(random.random(rows) < 0.05, -1, pay),
        "age": pa.array(age, mask=random.random(rows) < 0.05),
        "born": pa.array(((56 - age) * 365.25).astype(np.int32)).cast(pa.date32()),
        "female": np.array(["no", "yes"])[female.astype(int)],
        "union": np.array(["no", "yes"])[(random.random(rows) < 0.2 + 0.3 * female).astype(int)],
        "degree": np.array(["school", "college", "degree"])[degree],
        "income": np.exp(pay / 2),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def desk(family: str, folder: Path) -> None:
    """A steward's folder with the family's studies and tables."""
    if family == "wages":
        document("init", folder, cwd=folder.parent, **ACTOR)
    else:
        for month in (1, 2):
            write_table(folder / "data" / f"2026-{month:02}.parquet", month)
    for study in (HOMES / family).glob("*.yaml"):
        shutil.copy(study, folder)


def freeze(folder: Path, frozen: Path) -> None:
    """Copy the public parts of a home, and its exported ledger."""
    (frozen / "home").mkdir(parents=True)
    for name in PUBLIC:
        part = folder / ".dpbayes" / name
        copy = shutil.copytree if part.is_dir() else shutil.copy
        copy(part, frozen / "home" / name)
    shutil.rmtree(frozen / "home" / "archive" / ".tmp", ignore_errors=True)
    document("ledger", "export", frozen / "ledger.json", cwd=folder, **ACTOR)


def names_of(*arguments: str) -> list[str]:
    """The names of the checks of an audit that passes."""
    result = invoke("audit", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [check["check"] for check in json.loads(result.stdout)["checks"]]


def record_audits(family: str, folder: Path) -> None:
    """The checks of every audit, and the digest and request of every release, as they are today."""
    archive = HOMES / family / "home" / "archive"
    charges = {name: json.loads((archive / name / "entry.json").read_text()) for name in _releases(family)}
    recorded = {
        "home": names_of(str(restore(family, folder / family))),
        "ledger": names_of("--ledger", str(HOMES / family / "ledger.json"), *trusting(family)),
        "crates": {name: names_of("--crate", str(archive / name), *trusting(family)) for name in crates(family)},
        "releases": {
            name: {"digest": one["payload"]["digest"], "request": one["payload"]["request"], "key": one["key"]}
            for name, one in charges.items()
        },
    }
    _write(HOMES / family / "recorded.json", recorded)


def _releases(family: str) -> list[str]:
    return [name for name in crates(family) if name.startswith("releases")]


def record_documents(folder: Path) -> None:
    """Every document of a command that is not recorded yet."""
    from tests.support.golden_cases import ANSWERS, REFUSALS  # these read the keys of every family

    for case in (*ANSWERS, *REFUSALS):
        place = folder / case.family
        _write(case.file, case.document(place if place.exists() else restore(case.family, place)))
    place = restore(NOWHERE, folder / "dear")
    dpbayes("ledger", "create", "dear.yaml", cwd=place, check=True)
    refused = dpbayes("release", "dear.yaml", "--period", "2026-01", "--json", cwd=place)
    said = json.loads(refused.stdout.replace(str(place), HERE))
    _write(Case("beyond-the-budget", NOWHERE, ()).file, said)


def _write(file: Path, document: dict[str, Any]) -> None:
    if file.exists():
        print("recorded before:", file.name)
    else:
        file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main(arguments: Sequence[str]) -> None:
    """Run a family's commands in a new folder, and freeze its home unless it was frozen before."""
    family, folder = arguments[0], Path(arguments[1]).resolve()
    if family == "documents":
        return record_documents(folder)
    frozen = HOMES / family
    if (frozen / "home").exists():
        sys.exit(f"cannot record {family}: it is frozen for ever. Add a new family beside it.")
    desk(family, folder)
    for step in STEPS[family]:
        done = subprocess.run([*DPBAYES, *step, "--json"], cwd=folder, env=clean_environment(**ACTOR), check=False)
        print("exit", done.returncode, *step, flush=True)
    freeze(folder, frozen)
    return record_audits(family, folder.with_name(f"{family}-standing"))


if __name__ == "__main__":
    main(sys.argv[1:])
