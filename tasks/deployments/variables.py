"""The environment variables that a deployment gives to its runs: places and names, never a secret."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dpbayes.project.project import Project
from dpbayes_core.errors import StudyInvalid

_TLS = "DASK_DISTRIBUTED__COMM__TLS__"
_PLACES = ("DPBAYES_HOME", f"{_TLS}CA_FILE", f"{_TLS}CLIENT__CERT", f"{_TLS}CLIENT__KEY")
CARRIED = (*_PLACES, "DPBAYES_DASK", "DPBAYES_DASK_ALLOW_PLAIN", "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION")
"""What a run gets as it was when its study was deployed; every other variable is that of the worker's process."""


def run_variables(project: Project, environment: Mapping[str, str]) -> dict[str, str]:
    """The carried variables that are set, or that the project's `dpbayes.yaml` states; secrets are refused."""
    stated = {name: environment[name] for name in CARRIED if environment.get(name)}
    found = project.environment(environment) | stated
    for name, value in found.items():
        if _holds_secret(value) or (name not in _PLACES and {"@", "?"} & set(value)):
            raise StudyInvalid(
                f"cannot deploy with {name}: it contains a secret, which everybody who may look at the Prefect server "
                "would see. Name a file or an address without password."
            )
    return {name: _absolute(value) if name in _PLACES else value for name, value in sorted(found.items())}


def _holds_secret(value: str) -> bool:
    try:
        return "\n" in value or "-----BEGIN" in value or urlsplit(value).password is not None
    except ValueError:
        return True


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
