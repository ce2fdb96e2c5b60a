"""Checkpoints of running chains, from which a killed analysis continues and draws the same."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from dpbayes_core.canonical import canonical_json, digest
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.sampling.rounds import ChainDraws, Round
from storage.files.durable import make_folder, replace_file
from storage.files.private import read_own

_ROUND = "round.json"


class Checkpoints:
    """The checkpoints of one analysis by one version of the software, in the home's work folder."""

    def __init__(self, work: Path, key: str, software: Mapping[str, str]) -> None:
        self._folder = work / f"{key[:16]}-{digest(dict(software))[:8]}"

    def round(self) -> Round | None:
        """The round that was under way, if any."""
        try:
            return Round(**json.loads(read_own(self._folder / _ROUND)))
        except (OSError, IntegrityFailure):
            return None

    def begin(self, current: Round) -> None:
        """Record which round is under way."""
        make_folder(self._folder, mode=0o700)
        replace_file(
            self._folder / _ROUND, canonical_json({"attempt": current.attempt, "draws": current.draws}), self._folder
        )

    def chain(self, place: int, current: Round) -> ChainDraws | None:
        """The checkpoint of a chain of this attempt; None if there is none, or it is damaged or another user's."""
        try:
            chain = ChainDraws.from_bytes(read_own(self._path(place)))
        except (OSError, IntegrityFailure):
            return None
        return chain if chain.state.attempt == current.attempt else None

    def keep(self, place: int, chain: ChainDraws) -> None:
        """Store a chain's checkpoint, whole or not at all."""
        replace_file(self._path(place), chain.to_bytes(), self._folder)

    def drop(self) -> None:
        """Delete all checkpoints; called once the posterior is archived."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, place: int) -> Path:
        return self._folder / f"chain-{place}.bin"
