"""A new signing key: made, recorded under the old one, then put in its place; a kill in between is made good later."""

import os
from contextlib import suppress
from pathlib import Path

from dpbayes_core.errors import IntegrityFailure
from storage.files.durable import require_private, sync_folder
from storage.home.signatures import PRIVATE_KEY, Signer

NEXT_KEY = "next.pem"
"""The private key that is to sign once the ledger says so."""


def next_signer(folder: Path) -> Signer:
    """The key that is to sign next, made where there is none; its public part is trusted from now on."""
    require_private(folder)
    return Signer.make(folder, NEXT_KEY)


def pending_key(folder: Path) -> str | None:
    """The fingerprint of a next key that has not taken over yet."""
    try:
        return Signer.load(folder, NEXT_KEY).fingerprint
    except IntegrityFailure:
        if (folder / NEXT_KEY).exists():
            raise
        return None


def take_over(folder: Path, fingerprint: str) -> Signer:
    """Let the key that the ledger names sign from here on; the private part of the old one is gone after this."""
    if pending_key(folder) == fingerprint:
        with suppress(FileNotFoundError):  # a rival that finishes the same change
            os.replace(folder / NEXT_KEY, folder / PRIVATE_KEY)
        sync_folder(folder)
    signer = Signer.load(folder)
    if signer.fingerprint != fingerprint:
        raise IntegrityFailure(
            f"cannot sign: the ledger retired the key in {folder}, and {fingerprint} signs now. Restore the newer keys "
            "folder from a copy."
        )
    return signer
