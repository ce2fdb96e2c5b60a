"""The recorded addresses of a home's ledger and archive, so that a mistyped one does not start a second ledger."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode, urlsplit

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure, StudyInvalid
from storage.files.durable import create_file, replace_file

if TYPE_CHECKING:  # imported only when an address is read
    from sqlalchemy import URL

RECORD = "places.json"
INSIDE = "in the home"
"""The record of a ledger or archive inside the home's folder, which moves with the folder."""

_RECORDED_PARAMETERS = frozenset(("host", "port", "options", "service", "sslmode", "target_session_attrs"))
"""The parameters of a database URL that are recorded: those that locate it, and none that may be a secret."""


class PlaceChanged(StudyInvalid):
    """The environment names another ledger or archive than the home records."""

    kind = "place-changed"


def place_of(url: str, own: str) -> str:
    """The form of an address that is recorded: without user and password, or `INSIDE` if it is the home's `own`."""
    ledger = own.startswith("sqlite:///")
    local = _ledger_file(url) if ledger else _archive_folder(url)
    if local is None:
        return _server(url) if ledger else _store(url)
    path, inside = local.resolve(), Path(own.removeprefix("sqlite:///")).resolve()
    return INSIDE if path == inside else f"sqlite:///{path}" if ledger else str(path)


def addresses(folder: Path, places: Mapping[str, str]) -> dict[str, str]:
    """The addresses of a home's ledger and archive: inside its folder, unless `places` records others."""
    own = {"archive": str(folder / "archive"), "ledger": f"sqlite:///{folder / 'ledger.db'}"}
    return own | {name: place for name, place in places.items() if place != INSIDE}


def local_parts(ledger_url: str, archive_url: str) -> list[Path]:
    """The ledger's file, and the archive's folder with its contents, where they are on this machine."""
    ledger, archive = _ledger_file(ledger_url), _archive_folder(archive_url)
    found = [] if archive is None else [archive, *(archive.iterdir() if archive.is_dir() else ())]
    return found if ledger is None else [ledger, *found]


def _ledger_file(url: str) -> Path | None:
    parsed = _parsed(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    name = parsed.database
    return Path(unquote(urlsplit(name).path) if name.startswith("file:") else name)


def _archive_folder(url: str) -> Path | None:
    if "://" in url and not re.match("(file|local)://", url):
        return None
    return Path(re.sub("^(file|local)://", "", url)).expanduser()


def _server(url: str) -> str:
    """A database URL without user and password, parsed as libpq does: passwords may contain `/`, `?` and `#`."""
    parsed = _parsed(url)
    host, database, scheme = (parsed.host or "").lower(), parsed.database or "", parsed.get_backend_name()
    user_part = re.match("[^:]*://(?:[^:/]*(?::[^@]*)?@)?", url)  # as libpq parses it
    if user_part is None or "@" in url[user_part.end() :]:
        raise _unclear("ledger")
    port = parsed.port or (5432 if host and scheme == "postgresql" else None)
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    parameters = sorted(
        (name, value) for name, value in parsed.normalized_query.items() if name in _RECORDED_PARAMETERS
    )
    query = f"?{urlencode(parameters, doseq=True)}" if parameters else ""
    return f"{scheme}://{place}/{database.rstrip('/')}{query}"


def _store(url: str) -> str:
    """An archive's URL without user, password, `?` and `#` parts; refused where a secret may be part of the path."""
    scheme, _, rest = url.partition("://")
    named = re.split("[/?#]", rest, maxsplit=1)[0]
    path = rest[len(named) :]
    if "@" in path and (":" in named or re.search("[?#].*@", path, re.DOTALL)):
        raise _unclear("archive")
    return f"{scheme}://{named.rpartition('@')[2]}{re.split('[?#]', path)[0].rstrip('/')}"


def _parsed(url: str) -> "URL":
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    with suppress(ArgumentError, ValueError):  # their messages repeat the URL, which may contain a password
        return make_url(url)
    if "://" in url:
        raise _unclear("ledger")
    raise StudyInvalid("cannot open the ledger: its URL is neither sqlite nor postgresql. Correct DPBAYES_LEDGER_URL.")


def _unclear(name: str) -> StudyInvalid:
    return StudyInvalid(
        f"cannot tell where the {name} is: in its URL a secret and a place cannot be told apart. Write `@`, `/`, `?`, "
        "`#` and `:` in its user name and password as %40, %2F, %3F, %23 and %3A."
    )


def read_places(folder: Path) -> dict[str, str] | None:
    """The recorded addresses; None if there is no record yet."""
    try:
        found = json.loads((folder / RECORD).read_bytes())
        return {name: str(found[name]) for name in ("archive", "ledger")}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise IntegrityFailure(
            f"cannot read {folder / RECORD}: it is not the file that was written. Restore it from a copy."
        ) from None


def record_places(folder: Path, places: Mapping[str, str]) -> None:
    """Record the addresses, unless there is a record."""
    if not (folder / RECORD).exists():
        create_file(folder / RECORD, canonical_json(dict(places)), scratch=folder / "keys", mode=0o644)


def rewrite_places(folder: Path, places: Mapping[str, str]) -> None:
    """Replace the recorded addresses, after a move or recovery."""
    replace_file(folder / RECORD, canonical_json(dict(places)), folder / "keys", mode=0o644)


def refuse_other_places(folder: Path, places: Mapping[str, str]) -> None:
    """Refuse addresses other than the recorded ones; without a record, those outside a home with parts of its own."""
    known = read_places(folder)
    for name, here in (("ledger", folder / "ledger.db"), ("archive", folder / "archive" / "anchors")):
        before = INSIDE if known is None and here.exists() else (known or places)[name]
        if places[name] != before:
            old, new = (re.sub(f"^{INSIDE}$", f"{INSIDE} {folder}", place) for place in (before, places[name]))
            raise PlaceChanged(
                f"cannot use the {name} at {new}: that of this home is {old}. Correct DPBAYES_{name.upper()}_URL; if "
                f"it was moved there, put that on record with `dpbayes ledger move --reason TEXT`."
            )
