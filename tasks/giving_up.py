"""End a run started by a Prefect worker soon after its server is gone: Prefect itself retries for minutes."""

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
"""Seconds that the main thread waits in Prefect's code before the server is asked whether it is there."""

ANSWER = 10.0
"""Seconds that the server may take to answer."""

POLL = 0.25
PAUSE = 2.0  # seconds of our own work after which the waiting time starts from zero
ROOMS = tuple(
    f"{Path(__file__).parents[1] / room}{os.sep}"
    for room in ("dpbayes_core", "storage", "dpbayes", "tasks", "flows", "cli")
)
PREFECT = f"{Path(prefect.__file__).parent}{os.sep}"
_WATCHING = threading.Lock()


def give_up_without_server() -> None:
    """Watch the server, if a Prefect worker started this process; commands do so in `cli/ending.py`."""
    if "PREFECT__FLOW_RUN_ID" in os.environ and _WATCHING.acquire(blocking=False):
        threading.Thread(target=_watch, name="giving up", daemon=True).start()


def _watch() -> None:
    """Watch until the process ends; ending it is safe: each charge, archived file and checkpoint is whole or absent."""
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
    """Whether the main thread is in Prefect's code rather than ours, by the innermost frame of either."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith((PREFECT, *ROOMS)):
            return file.startswith(PREFECT)
        frame = frame.f_back
    return False


def _answers() -> bool:
    """Whether Prefect's server answers at all, even with an HTTP error or a certificate that Python does not trust."""
    try:
        urllib.request.urlopen(f"{PREFECT_API_URL.value()}/health", timeout=ANSWER).close()
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLCertVerificationError)
    except (OSError, ValueError):
        return False
    return True
