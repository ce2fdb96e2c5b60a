"""Settings of Prefect, Dask and Great Expectations that must stand before any of them is imported."""

import os

from storage.home import Home

ALWAYS = {
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}


def prepare(home: Home) -> None:
    """Telemetry off; the embedded server keeps its database in the home unless the user has a server of their own."""
    os.environ.update(ALWAYS)
    for name, value in {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_HOME": str(home.prefect)}.items():
        os.environ.setdefault(name, value)
