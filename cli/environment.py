"""Settings of Prefect, Dask and Great Expectations that must be made before any of them is imported."""

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
    "PYTHONWARNINGS": "ignore:resource_tracker:UserWarning",  # printed when a process is killed
}
"""Defaults that a user may override; with the first two, a server that is gone is noticed within half a minute."""

ON_A_SERVER_OF_THE_USER = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LEVEL": "INFO",
}
"""Defaults where `PREFECT_API_URL` names a server: it records the log lines, which the terminal does not show."""


def configure_prefect() -> None:
    """Telemetry off, and limits on how long Prefect's client waits; to be called before Prefect is imported."""
    os.environ.update(ALWAYS)
    more = ON_A_SERVER_OF_THE_USER if "PREFECT_API_URL" in os.environ else {}
    for name, value in (UNLESS_SET | more).items():
        os.environ.setdefault(name, value)


def prepare(home: Home | None, flow: str, *others: str) -> None:
    """Turn telemetry off, and start a Prefect server for this command, unless the user has configured one.

    The server's database is in the home; without a home, in a folder deleted at exit. While the server starts, which
    takes seconds, this process imports the module of the flow and the `others` that it will need.
    """
    configure_prefect()
    if "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = _temporary_home() if home is None else str(home.prefect)
    from tasks.prefect_server import own_server

    server = own_server()
    import_module(flow)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn as they are imported
        for module in others:
            import_module(module)
    if server is not None:
        server.wait()


def _temporary_home() -> str:
    folder = tempfile.mkdtemp(prefix="dpbayes-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # before Prefect's, to run after them
    return folder
