"""Ed25519 signatures in DSSE v1 envelopes, and a home's signing keys: current, past and next."""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.files.durable import keep_file, make_folder, sweep, sync_folder
from storage.files.private import require_private

PRIVATE_KEY = "signing.pem"
NEXT_KEY = "next.pem"
"""The private key that signs as soon as the ledger records the change of key."""
PUBLIC_KEYS = "public"


def fingerprint_of(public_key: bytes) -> str:
    """The name of a public key: sha256 of its 32 raw bytes, in hex."""
    return f"SHA256:{hashlib.sha256(public_key).hexdigest()}"


@lru_cache(maxsize=64)  # crates repeat the same few keys
def read_public_key(pem: bytes) -> tuple[str, bytes]:
    """The fingerprint and the 32 raw bytes of an exported public key."""
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise IntegrityFailure("cannot read a public key: it is no Ed25519 key in PEM form. Export it again.")
    raw = key.public_bytes_raw()
    return fingerprint_of(raw), raw


def encode_public_key(raw: bytes) -> bytes:
    """The PEM form of 32 raw bytes."""
    return Ed25519PublicKey.from_public_bytes(raw).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def trusted_keys(folder: Path) -> dict[str, bytes]:
    """Fingerprint to public key, for the current, past and next keys in a keys folder."""
    return dict(read_public_key(path.read_bytes()) for path in sorted((folder / PUBLIC_KEYS).glob("*.pem")))


class Signer:
    """A private key of a home, which cannot be pickled. Made only by `create`, `make` and `load`."""

    def __init__(self, private: Ed25519PrivateKey, trusted: Mapping[str, bytes]) -> None:
        self._private = private
        self.public_key = private.public_key().public_bytes_raw()
        self.fingerprint = fingerprint_of(self.public_key)
        self.trusted: Mapping[str, bytes] = {**trusted, self.fingerprint: self.public_key}

    def __repr__(self) -> str:
        return f"Signer(fingerprint={self.fingerprint}, private=withheld)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Signer must not leave this process: load it where it is needed")

    @classmethod
    def create(cls, folder: Path) -> "Signer":
        """Make the signing key of a keys folder, or load the one that exists."""
        make_folder(folder, mode=0o700)
        require_private(folder)
        sweep(folder)
        if trusted_keys(folder) and not (folder / PRIVATE_KEY).exists():
            raise IntegrityFailure(f"cannot make a new key: {folder} lost its private key. Restore it from a copy.")
        return cls.make(folder, PRIVATE_KEY)

    @classmethod
    def make(cls, folder: Path, name: str) -> "Signer":
        """Make a private key of that name, or load the one that exists; its public key is trusted from now on."""
        private = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        keep_file(folder / name, private, scratch=folder)
        signer = cls.load(folder, name)
        make_folder(folder / PUBLIC_KEYS, mode=0o700)
        place = folder / PUBLIC_KEYS / public_key_name(signer.fingerprint)
        keep_file(place, signer.export_public_key(), scratch=folder)
        return signer

    @classmethod
    def load(cls, folder: Path, name: str = PRIVATE_KEY) -> "Signer":
        """Load a private key from a keys folder, which must be closed to other users."""
        path = folder / name
        if not path.is_file():
            raise IntegrityFailure(f"cannot sign: {path} is missing. Restore the keys folder from a copy.")
        require_private(folder)
        require_private(path)
        try:
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise IntegrityFailure(f"cannot sign: {path} holds no Ed25519 key. Restore the keys folder from a copy.")
        return cls(private, trusted_keys(folder))

    def export_public_key(self) -> bytes:
        """The public key in PEM form, for auditors."""
        return encode_public_key(self.public_key)

    def sign(self, payload_type: str, payload: bytes) -> dict[str, Any]:
        """A DSSE v1 envelope around the payload."""
        signature = self._private.sign(pre_authentication(payload_type, payload))
        signed = {"keyid": self.fingerprint, "sig": base64.b64encode(signature).decode()}
        return enveloped(payload_type, payload, [signed])


def next_signer(folder: Path) -> Signer:
    """The next signing key, made if there is none; its public key is trusted from now on."""
    require_private(folder)
    return Signer.make(folder, NEXT_KEY)


def pending_key(folder: Path) -> str | None:
    """The fingerprint of the next signing key, if there is one that does not sign yet."""
    try:
        return Signer.load(folder, NEXT_KEY).fingerprint
    except IntegrityFailure:
        if (folder / NEXT_KEY).exists():
            raise
        return None


def take_over(folder: Path, fingerprint: str) -> Signer:
    """Replace the signing key by the next one, which the ledger names; the old private key is deleted."""
    if pending_key(folder) == fingerprint:
        with suppress(FileNotFoundError):  # a concurrent process has made the same change
            os.replace(folder / NEXT_KEY, folder / PRIVATE_KEY)
        sync_folder(folder)
    signer = Signer.load(folder)
    if signer.fingerprint != fingerprint:
        raise IntegrityFailure(
            f"cannot sign: the ledger retired the key in {folder}, and {fingerprint} signs now. Restore the newer keys "
            "folder from a copy."
        )
    return signer


def public_key_name(fingerprint: str) -> str:
    """The file name of a public key."""
    return f"{fingerprint.removeprefix('SHA256:')}.pem"


def enveloped(payload_type: str, payload: bytes, signatures: Sequence[Any]) -> dict[str, Any]:
    """A DSSE v1 envelope around the payload with existing signatures."""
    encoded = base64.b64encode(payload).decode()
    return {"payload": encoded, "payloadType": payload_type, "signatures": list(signatures)}


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that a DSSE v1 signature covers: type and payload, each preceded by its length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def verify(
    envelope: Mapping[str, Any],
    trusted: Mapping[str, bytes],
    *,
    payload_type: str | None = None,
    thing: str = "the envelope",
) -> bytes:
    """The payload of an envelope that a trusted key signed; with `payload_type`, it must be of that type."""
    try:
        kind: str = envelope["payloadType"]
        payload = _base64(envelope["payload"])
        signatures = [(str(each["keyid"]), _base64(each["sig"])) for each in envelope["signatures"]]
        covered = pre_authentication(kind, payload)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise IntegrityFailure(f"cannot trust {thing}: it is not a DSSE envelope. Restore it from a copy.") from None
    known = [(trusted[keyid], signature) for keyid, signature in signatures if keyid in trusted]
    if not known:
        raise IntegrityFailure(
            f"cannot trust {thing}: no trusted key signed it. Pass the signer's fingerprint if you do."
        )
    if not any(_signed(key, signature, covered) for key, signature in known):
        raise IntegrityFailure(f"cannot trust {thing}: its signature does not match. Restore it from a copy.")
    if payload_type not in (None, kind):
        raise IntegrityFailure(f"cannot trust {thing}: something else was signed, of type {kind!r}.")
    return payload


def signers_of(envelope: Mapping[str, Any], keys: Mapping[str, bytes], payload_type: str) -> frozenset[str]:
    """The fingerprints of the keys whose signature on the envelope is valid."""
    found: set[str] = set()
    for name, key in keys.items():
        try:
            verify(envelope, {name: key}, payload_type=payload_type)
        except IntegrityFailure:
            continue
        found.add(name)
    return frozenset(found)


def verify_stored(data: bytes, trusted: Mapping[str, bytes], *, payload_type: str, thing: str) -> bytes:
    """`verify` for a file, of which no byte may differ: canonical JSON, DSSE fields only, all signatures valid."""
    fields: list[set[str]] = []
    try:
        envelope: Any = json.loads(data)
        fields = [set(each) for each in envelope["signatures"]]
        sound = canonical_json(envelope) == data and set(envelope) == _FIELDS
        sound = sound and bool(fields) and all(each == _SIGNATURE_FIELDS for each in fields)
    except (ValueError, TypeError, KeyError, RecursionError):
        sound, envelope = False, {}
    if not sound:
        raise IntegrityFailure(f"cannot trust {thing}: it is not the file that was written. Restore it from a copy.")
    payload = verify(envelope, trusted, payload_type=payload_type, thing=thing)
    if len(signers_of(envelope, trusted, payload_type)) != len(fields):
        raise IntegrityFailure(f"cannot trust {thing}: one of its signatures does not match. Restore it from a copy.")
    return payload


_FIELDS = {"payload", "payloadType", "signatures"}
_SIGNATURE_FIELDS = {"keyid", "sig"}


def _base64(text: str) -> bytes:
    """Decode standard base64 in its canonical spelling only, so that an envelope cannot be altered and stay valid."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise binascii.Error("not canonical")
    return data


@lru_cache(maxsize=16)  # `verify_stored` checks each signature twice
def _signed(key: bytes, signature: bytes, covered: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, covered)
    except (InvalidSignature, ValueError):
        return False
    return True
