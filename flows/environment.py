"""Settings of Prefect, Dask and Great Expectations that must stand before any of them is imported."""

import atexit
import os
import shutil
import tempfile

from storage.home import Home

ALWAYS = {
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}


def prepare(home: Home | None) -> None:
    """Telemetry off; the embedded server keeps its database in the home unless the user has a server of their own.

    Without a home it keeps it for as long as the command runs.
    """
    os.environ.update(ALWAYS)
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    if "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = _passing() if home is None else str(home.prefect)


def _passing() -> str:
    folder = tempfile.mkdtemp(prefix="dpbayes-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # before Prefect registers its own: it ends after it
    return folder
