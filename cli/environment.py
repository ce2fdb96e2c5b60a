"""Settings of Prefect, Dask and Great Expectations that must stand before any of them is imported."""

import atexit
import os
import shutil
import tempfile
import warnings
from importlib import import_module

from storage.home.home import Home

ALWAYS = {
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}

UNLESS_SET = {
    "PREFECT_API_REQUEST_TIMEOUT": "15",
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",  # of a process that was ended in haste
}
"""What a user may set otherwise; with the first two a server that is gone is given up within half a minute."""


def prepare(home: Home | None, flow: str, *others: str) -> None:
    """Telemetry off, and a Prefect server of this command's own, unless the user has one.

    It keeps its database in the home; without a home, for as long as the command runs. While it starts, which takes
    seconds, this process imports the module of a flow and others that it will need.
    """
    os.environ.update(ALWAYS)
    for name, value in UNLESS_SET.items():
        os.environ.setdefault(name, value)
    if "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = _passing() if home is None else str(home.prefect)
    from tasks.prefect_server import own_server

    server = own_server()
    import_module(flow)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, which a pass silences where it imports them itself
        for module in others:
            import_module(module)
    if server is not None:
        server.wait()


def _passing() -> str:
    folder = tempfile.mkdtemp(prefix="dpbayes-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # before Prefect registers its own: it ends after it
    return folder
