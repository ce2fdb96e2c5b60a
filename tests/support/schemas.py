"""The published JSON Schemas."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import dpbayes.crates

FOLDER = Path(dpbayes.crates.__file__).parent / "schemas"


def flaws_of_record(crate: Path) -> list[str]:
    """Violations of their published JSON Schemas by a crate's records."""
    found: list[str] = []
    for name in ("release", "posterior"):
        if (crate / f"{name}.json").exists():
            record = json.loads((crate / f"{name}.json").read_text())
            published = FOLDER / f"{name}-{record['schema_version']}.json"
            schema: dict[str, Any] = json.loads(published.read_text())
            found += [error.message for error in Draft202012Validator(schema).iter_errors(record)]
    return found
