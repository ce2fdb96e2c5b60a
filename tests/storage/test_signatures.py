import base64
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dpbayes.crates.format import STATEMENT_TYPE, statement
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.files.private import KeysExposed
from storage.home.signatures import (
    PRIVATE_KEY,
    Signer,
    fingerprint_of,
    pre_authentication,
    public_key_name,
    read_public_key,
    trusted_keys,
    verify,
    verify_stored,
)

TYPE = "application/vnd.test+json"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("home") / "keys")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("elsewhere") / "keys")


def test_the_signed_bytes_are_those_of_the_dsse_specification() -> None:
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == expected
    assert pre_authentication("é", b"\0 ") == b"DSSEv1 2 \xc3\xa9 2 \0 "
    assert pre_authentication("", b"") == b"DSSEv1 0  0 "


def test_an_envelope_verifies_with_nothing_but_ed25519_and_the_specification(signer: Signer) -> None:
    envelope = signer.sign("http://example.com/HelloWorld", b"hello world")
    assert envelope["payload"] == "aGVsbG8gd29ybGQ="
    (signature,) = envelope["signatures"]
    _, raw = read_public_key(signer.export_public_key())
    Ed25519PublicKey.from_public_bytes(raw).verify(
        base64.b64decode(signature["sig"]), b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


@pytest.mark.parametrize("payload", [b"", b"{}", bytes(range(256)), "naïve".encode()])
def test_a_payload_comes_back_as_signed(signer: Signer, payload: bytes) -> None:
    envelope = signer.sign(TYPE, payload)
    assert verify(envelope, signer.trusted, payload_type=TYPE) == payload
    assert verify_stored(canonical_json(envelope), signer.trusted, payload_type=TYPE, thing="it") == payload
    assert signer.sign(TYPE, payload) == envelope


def altered(envelope: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(envelope))
    change(copy)
    return copy


ALTERATIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "payload": lambda e: e.update(payload="e30x"),
    "type": lambda e: e.update(payloadType=TYPE + " "),
    "signature": lambda e: e["signatures"][0].update(sig=base64.b64encode(bytes(64)).decode()),
    "short signature": lambda e: e["signatures"][0].update(sig=""),
    "key": lambda e: e["signatures"][0].update(keyid="SHA256:" + "0" * 64),
    "no signature": lambda e: e.update(signatures=[]),
    "signatures of another shape": lambda e: e.update(signatures={"keyid": "x"}),
    "signature of another shape": lambda e: e.update(signatures=[3]),
    "payload gone": lambda e: e.pop("payload"),
    "payload no text": lambda e: e.update(payload=None),
    "type no text": lambda e: e.update(payloadType=3),
    "half a character": lambda e: e.update(payloadType="\ud800"),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_envelope_is_refused_by_name(signer: Signer, name: str) -> None:
    envelope = altered(signer.sign(TYPE, b"{}"), ALTERATIONS[name])
    with pytest.raises(IntegrityFailure, match="cannot trust crate 7"):
        verify(envelope, signer.trusted, thing="crate 7")


def test_base64_has_one_spelling(signer: Signer) -> None:
    payload = next(
        bytes([n, 255, 254, n]) for n in range(256) if "/" in base64.b64encode(bytes([n, 255, 254, n])).decode()
    )
    envelope = signer.sign(TYPE, payload)
    text: str = envelope["payload"]
    spare_bits = text[:-3] + chr(ord(text[-3]) + 1) + "=="
    assert base64.b64decode(spare_bits) == payload
    for other in (spare_bits, text.replace("/", "_"), text + "\n", text.rstrip("=")):
        with pytest.raises(IntegrityFailure):
            verify({**envelope, "payload": other}, signer.trusted)


def test_any_changed_byte_of_a_stored_envelope_is_found(signer: Signer) -> None:
    whole = canonical_json(signer.sign(TYPE, b'{"seq":3}'))
    for place in range(len(whole)):
        for mask in (1, 2, 32, 128):
            changed = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
            with pytest.raises(IntegrityFailure):
                verify_stored(changed, signer.trusted, payload_type=TYPE, thing="it")


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"null", b'{"signatures":[{}]}', b"[" * 99999, b'{"a":NaN}'])
def test_a_stored_file_that_is_no_envelope_is_an_integrity_failure(signer: Signer, data: bytes) -> None:
    with pytest.raises(IntegrityFailure):
        verify_stored(data, signer.trusted, payload_type=TYPE, thing="it")


def test_a_stored_envelope_carries_nothing_that_is_not_signed(signer: Signer) -> None:
    envelope = signer.sign(TYPE, b"{}")
    for loose in ({**envelope, "note": "unsigned"}, {**envelope, "signatures": envelope["signatures"] * 2}):
        assert verify(loose, signer.trusted) == b"{}"
    for data in (canonical_json({**envelope, "note": "unsigned"}), json.dumps(envelope).encode()):
        with pytest.raises(IntegrityFailure):
            verify_stored(data, signer.trusted, payload_type=TYPE, thing="it")


def test_a_signature_for_one_purpose_does_not_serve_another(signer: Signer) -> None:
    envelope = signer.sign(TYPE, b"{}")
    with pytest.raises(IntegrityFailure, match="something else was signed"):
        verify(envelope, signer.trusted, payload_type=STATEMENT_TYPE)


def test_a_stranger_is_not_trusted_not_even_under_a_trusted_name(signer: Signer, stranger: Signer) -> None:
    envelope = stranger.sign(TYPE, b"{}")
    with pytest.raises(IntegrityFailure, match="no trusted key"):
        verify(envelope, signer.trusted)
    envelope["signatures"][0]["keyid"] = signer.fingerprint
    with pytest.raises(IntegrityFailure, match="does not match"):
        verify(envelope, signer.trusted)


def test_one_trusted_signature_among_several_is_enough(signer: Signer, stranger: Signer) -> None:
    both = signer.sign(TYPE, b"{}")
    both["signatures"] = stranger.sign(TYPE, b"{}")["signatures"] + both["signatures"]
    assert verify(both, signer.trusted) == b"{}"
    assert verify(both, stranger.trusted) == b"{}"


def test_a_past_key_is_still_trusted_after_another_took_its_place(tmp_path: Path) -> None:
    past = Signer.create(tmp_path / "past")
    envelope = past.sign(TYPE, b"{}")
    present = Signer.create(tmp_path / "present")
    name = public_key_name(past.fingerprint)
    (tmp_path / "present" / "public" / name).write_bytes((tmp_path / "past" / "public" / name).read_bytes())
    assert set(trusted_keys(tmp_path / "present")) == {past.fingerprint, present.fingerprint}
    assert verify(envelope, Signer.load(tmp_path / "present").trusted) == b"{}"
    assert Signer.load(tmp_path / "present").fingerprint == present.fingerprint


def test_keys_are_private_files_in_a_private_folder(tmp_path: Path) -> None:
    Signer.create(tmp_path / "keys")
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "keys").rglob("*.pem"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not list((tmp_path / "keys").glob("*.part"))


def test_making_keys_again_keeps_the_key_and_completes_what_a_kill_left(tmp_path: Path) -> None:
    first = Signer.create(tmp_path / "keys")
    (tmp_path / "keys" / "public" / public_key_name(first.fingerprint)).unlink()
    (tmp_path / "keys" / "0123.part").write_bytes(b"half a key")
    assert Signer.create(tmp_path / "keys").fingerprint == first.fingerprint
    assert trusted_keys(tmp_path / "keys") == {first.fingerprint: first.public_key}
    assert not list((tmp_path / "keys").glob("*.part"))


def test_a_lost_private_key_is_never_replaced_in_silence(tmp_path: Path) -> None:
    Signer.create(tmp_path / "keys")
    (tmp_path / "keys" / PRIVATE_KEY).unlink()
    for use in (Signer.create, Signer.load):
        with pytest.raises(IntegrityFailure, match="Restore"):
            use(tmp_path / "keys")


@pytest.mark.parametrize("path", ["", PRIVATE_KEY])
def test_keys_open_to_others_are_refused(tmp_path: Path, path: str) -> None:
    Signer.create(tmp_path / "keys")
    (tmp_path / "keys" / path).chmod(0o755)
    for use in (Signer.create, Signer.load):
        with pytest.raises(KeysExposed):
            use(tmp_path / "keys")


def test_a_file_that_holds_no_ed25519_key_is_refused(tmp_path: Path) -> None:
    Signer.create(tmp_path / "keys")
    (tmp_path / "keys" / PRIVATE_KEY).write_bytes(b"not a key")
    with pytest.raises(IntegrityFailure, match="Ed25519"):
        Signer.load(tmp_path / "keys")
    other = generate_private_key(SECP256R1()).public_key()
    for pem in (b"not a key", other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)):
        with pytest.raises(IntegrityFailure, match="Ed25519"):
            read_public_key(pem)


def test_an_exported_key_carries_its_fingerprint(signer: Signer) -> None:
    assert read_public_key(signer.export_public_key()) == (signer.fingerprint, signer.public_key)
    assert len(signer.public_key) == 32
    assert fingerprint_of(signer.public_key) == signer.fingerprint
    assert signer.fingerprint.startswith("SHA256:")


def test_a_signer_shows_and_sends_no_private_key(signer: Signer) -> None:
    assert "withheld" in repr(signer)
    with pytest.raises(TypeError, match="must not leave"):
        pickle.dumps(signer)


def test_a_statement_names_its_files_in_the_in_toto_form() -> None:
    data = statement([{"name": "crate", "sha256": "ab" * 32}], "https://example.org/release/v1", {"seq": 3})
    assert data == canonical_json(json.loads(data))
    assert json.loads(data) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "crate", "digest": {"sha256": "ab" * 32}}],
        "predicateType": "https://example.org/release/v1",
        "predicate": {"seq": 3},
    }
