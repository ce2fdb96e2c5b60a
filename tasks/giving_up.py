"""A run that a worker started ends soon after its Prefect server is gone: Prefect by itself goes on for minutes."""

import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import prefect
from prefect.settings import PREFECT_API_URL

from dpbayes.markup.visible import visible
from tasks.surroundings import PREFECT_SILENT

PATIENCE = 60.0
"""Seconds that such a run waits for Prefect, before it asks whether its server is there."""

ANSWER = 10.0
"""Seconds that the server may take to say so."""

POLL = 0.25
PAUSE = 2.0  # of work between two waits, that makes them two
ROOMS = tuple(
    f"{Path(__file__).parents[1] / room}{os.sep}"
    for room in ("dpbayes_core", "storage", "dpbayes", "tasks", "flows", "cli")
)
PREFECT = f"{Path(prefect.__file__).parent}{os.sep}"
_WATCHING = threading.Lock()


def give_up_without_server() -> None:
    """In a process that a worker started for a run, see to its end; a command of a person's has one of its own."""
    if "PREFECT__FLOW_RUN_ID" in os.environ and _WATCHING.acquire(blocking=False):
        threading.Thread(target=_watch, name="giving up", daemon=True).start()


def _watch() -> None:
    """Until the process ends: what is charged, archived or kept of a chain is whole or absent at any moment."""
    waits_since = works_since = time.monotonic()
    while True:
        time.sleep(POLL)
        now = time.monotonic()
        if in_prefect():
            works_since = now
        elif now - works_since > PAUSE:
            waits_since = now
        if now - waits_since > PATIENCE:
            if not _answers():
                print(visible(PREFECT_SILENT), file=sys.stderr, flush=True)
                os._exit(1)  # workers of the chains end with this process
            waits_since = time.monotonic()


def in_prefect() -> bool:
    """Whether the main thread is at something of Prefect's, and not at work of ours."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith((PREFECT, *ROOMS)):
            return file.startswith(PREFECT)
        frame = frame.f_back
    return False


def _answers() -> bool:
    """Whether Prefect's server says anything, be it that it does not know us, or by a certificate unknown to Python."""
    try:
        urllib.request.urlopen(f"{PREFECT_API_URL.value()}/health", timeout=ANSWER).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLCertVerificationError)
    except (OSError, ValueError):
        return False
    return True
