"""The page of a release that is itself the answer: what was drawn, what it cost, how to check it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.missing import with_missing
from dpbayes.kinds.registry import texts_of
from dpbayes.kinds.texts import Declared, Texts
from dpbayes.markup.numbers import short
from dpbayes.markup.template import COMMON_STYLE, set_page
from dpbayes.pages.report.graph import pictures
from dpbayes.pages.report.price import cap_lines, cap_note, noise_pairs, price_fact, price_words
from dpbayes.pages.report.texts import VERIFY, keep_in_mind, rows
from dpbayes.pages.views import CapLine, Fact, GraphPicture, Pair, Section
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.releases import release_from_record
from storage.files.archive_paths import place

Record = Mapping[str, Any]
VERIFIED = (
    "This page is one file of a signed crate. With the crate, the signer’s fingerprint and dpbayes, anyone can check "
    "offline that no file was altered, that the numbers come from the release named below, and that this release is "
    "the one the ledger charged for. Take the fingerprint from the agency by another way than this page."
)
MOST_DRAWS = 8  # columns of the table; all draws are in the file of noisy numbers


@dataclass(frozen=True, kw_only=True)
class AnswerPage:
    """Everything that the page shows, as plain text and pictures."""

    study: str
    period: str
    release: str
    title: str
    lede: str
    limits: str
    facts: tuple[Fact, ...]
    parameters: str
    reading: str
    graphs: tuple[GraphPicture, ...]
    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    left_out: str
    request: tuple[Pair, ...]
    columns: tuple[Declared, ...]
    spent: str
    caps: tuple[CapLine, ...]
    cap_note: str
    noise_words: tuple[str, ...]
    noise: tuple[Pair, ...]
    closing: tuple[Section, ...]
    footer: str


def render_answer(record: Record, *, fingerprint: str) -> str:
    """The page from the record of a release; the same record gives the same bytes."""
    made = release_from_record(record["statistics"])
    shown = _page(record, made, texts_of(made), fingerprint)
    return set_page("dpbayes.pages.report/answer.html.j2", shown, COMMON_STYLE)


def _page(record: Record, made: AnyRelease, texts: Texts, fingerprint: str) -> AnswerPage:
    heads, lines, left_out = _table(texts, made)
    first = f"{record['release']}, revision {record['revision']}"
    return AnswerPage(
        study=record["study"],
        period=record["period"],
        release=record["release"],
        title=texts.title(made),
        lede=f"{texts.lede(made)}, among the {record['population']} of {record['period']}.",
        limits=texts.limits(made),
        facts=(price_fact(record), *rows(record, made), Fact(*texts.noise_size(made))),
        parameters=texts.parameters,
        reading=texts.reading(made),
        graphs=pictures(texts.graphs(made)),
        heads=heads,
        lines=lines,
        left_out=left_out,
        request=(
            Pair("Study", f"{record['study']}, period {record['period']}"),
            Pair("Population", record["population"]),
            Pair("Model", texts.model(made)),
            Pair("Release", f"{first}: {record['reason']}" if record["supersedes"] else first),
        ),
        columns=with_missing(texts.declared(made), [record["definition"]]),
        spent=price_words(record, analysed=False),
        caps=cap_lines(record),
        cap_note=cap_note(record["caps"]),
        noise_words=texts.noise(made, Counted.of(record)),
        noise=noise_pairs(record, texts.noise_pairs(made)),
        closing=(keep_in_mind(texts.caveats(made)), _verification(record, fingerprint)),
        footer=f"Made by dpbayes from ledger entry {record['ledger']['seq']} of {record['date']}. This page loads "
        "nothing and runs no script.",
    )


def _verification(record: Record, fingerprint: str) -> Section:
    return Section(
        anchor="verify",
        title=VERIFY,
        paragraphs=(VERIFIED,),
        commands=f"dpbayes audit --crate {_path(record)} --key {fingerprint}",
        pairs=(
            Pair("Signed by", fingerprint),
            Pair("Release digest", record["digest"]),
            Pair("Ledger entry", f"{record['ledger']['seq']}, hash {record['ledger']['hash']}"),
        ),
    )


def _table(texts: Texts, made: AnyRelease) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str]:
    """One line for each parameter, one column for each draw."""
    found = {name: [short(value) for value in values] for name, values in texts.answers_of(made).items()}
    draws = len(next(iter(found.values())))
    heads = ("Value",) if draws == 1 else tuple(f"Draw {k + 1}" for k in range(min(draws, MOST_DRAWS)))
    lines = tuple((name, *values[:MOST_DRAWS]) for name, values in found.items())
    more = "" if draws <= MOST_DRAWS else f"The other {draws - MOST_DRAWS} draws are in noisy.parquet."
    return heads, lines, more


def _path(record: Record) -> str:
    name = f"{record['release']}-r{int(record['revision'])}-{record['digest'][:16]}"
    return place("releases", record["study"], record["period"], name)
