"""What operators see of a run on their Prefect server: lines of its log, events, and artifacts."""

import contextvars
import json
import queue
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from prefect import get_run_logger
from prefect.assets import Asset
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import AssetContext
from prefect.events import emit_event
from prefect.runtime import flow_run
from prefect.states import Completed

from tasks.notices import Crate, Notice, Subject

EVENT = "dpbayes."
"""What the names of our events begin with."""

STUDY = "dpbayes.study."
"""What the resource of our events begins with; the study's name follows."""

LABELS = ("release", "analysis", "status", "kind", "repeated")
"""Facts that automations may select by."""

WAITING = 100
"""Artifacts that may wait to be written; further ones are dropped."""

LAST = 5.0
"""Seconds that artifacts may take when the run is over."""

ANSWER = 10.0
"""Seconds that the server may take to answer."""

Write = Callable[[SyncPrefectClient], None]


class PrefectBoard:
    """The log, events and artifacts of one flow run; artifacts are written by a thread, so that the work goes on."""

    def __init__(self) -> None:
        self._log = get_run_logger()
        self._run = UUID(str(flow_run.id))
        self._writes: queue.Queue[Write | None] = queue.Queue(WAITING)
        self._progress: dict[str, UUID] = {}
        self._context = contextvars.copy_context()  # in which events belong to this flow run, and to its deployment
        writing = contextvars.copy_context().run
        self._thread = threading.Thread(target=writing, args=(self._write_all,), name="artifacts", daemon=True)
        self._thread.start()

    @classmethod
    @contextmanager
    def open(cls) -> Generator["PrefectBoard"]:
        """A board for the present flow run; at the end of the block what waits is written, if the server answers."""
        board = cls()
        try:
            yield board
        finally:
            with suppress(queue.Full):
                board._writes.put_nowait(None)
                board._thread.join(LAST)

    def put(self, notice: Notice) -> None:
        """Log a notice, send it as an event if others may wait for it, and write its page."""
        self._log.log(notice.level, "%s", notice.message)
        self._context.run(_send_events, notice)
        if (page := notice.page) is not None:
            data = page.data if isinstance(page.data, str) else json.dumps(page.data)
            self._create(key=page.key, type=page.kind, description=page.heading, data=data)

    def show(self, subject: Subject, step: str, share: float, said: str) -> None:
        """Show a step's progress bar, or move it."""
        percent = float(round(100 * share))
        heading = f"{subject}: {step}{': ' * bool(said)}{said}"

        def write(client: SyncPrefectClient) -> None:
            if step in self._progress:
                client.update_artifact(self._progress[step], ArtifactUpdate(data=percent, description=heading))
                return
            shown = ArtifactCreate(type="progress", description=heading, data=percent, flow_run_id=self._run)
            self._progress[step] = client.create_artifact(shown).id

        self._later(write)

    def _create(self, **artifact: Any) -> None:
        shown = ArtifactCreate(flow_run_id=self._run, **artifact)
        self._later(lambda client: client.create_artifact(shown) and None)

    def _later(self, write: Write) -> None:
        with suppress(queue.Full):
            self._writes.put_nowait(write)

    def _write_all(self) -> None:
        """Write what comes until the end; an artifact that cannot be written is dropped."""
        with suppress(Exception), get_client(httpx_settings={"timeout": ANSWER}, sync_client=True) as client:
            while (write := self._writes.get()) is not None:
                with suppress(Exception):
                    write(client)


def _send_events(notice: Notice) -> None:
    if notice.awaited:
        emit_event(EVENT + notice.event, resource=_resource(notice), payload=notice.to_record())
    if notice.crate is not None:
        _record_asset(notice.crate, notice)


def _resource(notice: Notice) -> dict[str, str]:
    """The study, with the labels of the event."""
    subject, facts = notice.subject, notice.facts
    named = {name: str(facts[name]) for name in LABELS if name in facts}
    return {
        "prefect.resource.id": STUDY + subject.study,
        "prefect.resource.name": subject.study,
        "dpbayes.account": subject.account,
        "dpbayes.period": subject.period,
        **{f"dpbayes.{name}": value for name, value in named.items()},
    }


def _record_asset(crate: Crate, notice: Notice) -> None:
    """Tell Prefect of a crate as an asset, with the crates that it is computed from."""
    asset = Asset(key=crate.name)
    AssetContext(
        downstream_assets={asset},
        direct_asset_dependencies={Asset(key=source) for source in crate.sources},
        materialized_by="dpbayes",
        materialization_metadata={crate.name: {"crate": notice.facts["crate"], "status": notice.facts["status"]}},
    ).emit_events(Completed())
