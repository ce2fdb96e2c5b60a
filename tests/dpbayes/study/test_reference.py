"""The study reference is generated, complete and up to date."""

from pathlib import Path

from docs.generate.study_reference import study_reference
from dpbayes_core.sampling.rounds import MOST_EXTENSION

FILE = Path(__file__).parents[3] / "docs" / "study-reference.md"


def test_the_reference_in_docs_is_what_the_models_say() -> None:
    stored = FILE.read_text(encoding="utf-8")
    assert stored == study_reference(), "run: python -m docs.generate.study_reference > docs/study-reference.md"


def test_every_key_has_a_type_a_default_and_a_meaning() -> None:
    rows = [line for line in study_reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    for row in rows:
        _, _, kind, default, meaning, _, _ = (cell.strip() for cell in row.split("|"))
        assert kind
        assert default
        assert meaning.endswith("."), row


def test_the_reference_says_that_chains_may_be_longer_than_asked() -> None:
    (row,) = (line for line in study_reference().splitlines() if line.startswith("| `draws` |") and "chain" in line)
    assert f"up to {MOST_EXTENSION} times" in row
