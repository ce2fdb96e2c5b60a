"""Encrypts what a pass sends to other machines and gets back; its key reaches each worker under the worker's own.

Everything between the home and a worker's memory passes a scheduler, which keeps it, may write it to its disk and shows
its names. So whatever carries rows, sums, paths or keys is encrypted before it leaves a process, and padded, since its
length may depend on rows. The key of a pass is derived from the home's key and from random bytes that exist in memory
only. A worker's key pair exists in its memory only, and the pass's key is sent under it: to read what a scheduler keeps
one needs the memory of the home's process or of a worker.
"""

import secrets
from collections.abc import Iterator, Mapping
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import DpbayesError

LEAST = 1 << 12  # bytes: shorter messages have this length
FRAME = 1 << 26  # bytes encrypted at a time: the cipher takes at most 2 GiB
_KEY_BYTES, _NONCE_BYTES, _TAG_BYTES, _LENGTH_BYTES = 32, 12, 16, 8


class SealBroken(DpbayesError):
    """What came from a cluster is not what a worker of this pass sealed."""

    kind = "seal-broken"

    def __str__(self) -> str:
        return (
            "cannot go on: an answer of the secure cluster was altered on its way. Restart its scheduler and workers "
            "and run again."
        )


class Seal(Confidential):
    """Encrypts and decrypts under the key of one pass; `about` names a message and has to be the same again."""

    def __init__(self, key: bytes) -> None:
        self._key, self._cipher = key, AESGCM(key)

    @classmethod
    def derive(cls, home_key: bytes) -> "Seal":
        """The seal of a new pass; another one at each call."""
        return cls(_derived(home_key, secrets.token_bytes(_KEY_BYTES), b"pass"))

    def seal(self, plain: bytes, about: str) -> bytes:
        """The encrypted message, in frames that cannot be exchanged, left out or repeated."""
        length = _padded(_LENGTH_BYTES + len(plain))
        whole = len(plain).to_bytes(_LENGTH_BYTES, "big") + plain
        whole += bytes(length - len(whole))
        frames: list[bytes] = []
        for place in range(0, length, FRAME):
            nonce = secrets.token_bytes(_NONCE_BYTES)
            frames += [
                nonce,
                self._cipher.encrypt(nonce, whole[place : place + FRAME], _associated(about, place, length)),
            ]
        return b"".join(frames)

    def open(self, sealed: bytes, about: str) -> bytes:
        """The message; raises `SealBroken` unless it was sealed under this key and name."""
        frame = _NONCE_BYTES + FRAME + _TAG_BYTES
        length = len(sealed) - -(-len(sealed) // frame) * (_NONCE_BYTES + _TAG_BYTES)
        try:
            whole = b"".join(self._opened(sealed, about, length))
        except InvalidTag:
            whole = None
        if not whole:
            raise SealBroken
        return whole[_LENGTH_BYTES : _LENGTH_BYTES + int.from_bytes(whole[:_LENGTH_BYTES], "big")]

    def _opened(self, sealed: bytes, about: str, length: int) -> Iterator[bytes]:
        frame = _NONCE_BYTES + FRAME + _TAG_BYTES
        for number, start in enumerate(range(0, len(sealed), frame)):
            nonce, encrypted = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES : start + frame]
            if len(encrypted) < _TAG_BYTES:
                raise InvalidTag
            yield self._cipher.decrypt(nonce, encrypted, _associated(about, number * FRAME, length))

    def for_worker(self, public: bytes) -> bytes:
        """The key of the pass for the worker with this public key alone."""
        once = X25519PrivateKey.generate()  # so that the nonce below occurs once under each key
        sender = once.public_key().public_bytes_raw()
        cipher = _cipher_between(once.exchange(X25519PublicKey.from_public_bytes(public)), sender, public)
        return sender + cipher.encrypt(bytes(_NONCE_BYTES), self._key, None)


class WorkerKey(Confidential):
    """A key pair of one worker process."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def seal_from(self, ring: Mapping[bytes, bytes]) -> Seal | None:
        """The seal of the pass, if its key was sent to this worker."""
        sent = ring.get(self.public)
        if sent is None:
            return None
        sender, encrypted = sent[:_KEY_BYTES], sent[_KEY_BYTES:]
        shared = self._private.exchange(X25519PublicKey.from_public_bytes(sender))
        try:
            return Seal(_cipher_between(shared, sender, self.public).decrypt(bytes(_NONCE_BYTES), encrypted, None))
        except InvalidTag:
            raise SealBroken from None


@cache
def worker_key() -> WorkerKey:
    """The key pair of this process, made when it is first needed."""
    return WorkerKey()


def _cipher_between(shared: bytes, sender: bytes, receiver: bytes) -> AESGCM:
    return AESGCM(_derived(shared, b"", b"key" + sender + receiver))


def _derived(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), _KEY_BYTES, salt, b"dpbayes " + purpose).derive(secret)


def _associated(about: str, place: int, length: int) -> bytes:
    return f"{about}\n{place}\n{length}".encode()


def _padded(length: int) -> int:
    """At least `LEAST`, else the next of sixteen steps between powers of two."""
    if length <= LEAST:
        return LEAST
    step = 1 << max((length - 1).bit_length() - 5, 0)
    return -(-length // step) * step
