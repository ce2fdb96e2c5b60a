"""YAML 1.2 as the study file reads it."""

from decimal import Decimal

import pytest

from dpbayes.strict_yaml.problem import Problem
from dpbayes.strict_yaml.yaml12 import MOST_NODES, parse


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "yes",
        "on",
        "off",
        "y",
        "N",
        "2026-01-01",
        "2026-01-01T10:00:00",
        "1_000",
        "1:30",
        "0b11",
        "0o8",
        "<<",
        "=",
        "1.2.3",
        "e5",
        "0x",
        "nan",
        "inf",
        "-x",
        "+",
    ],
)
def test_what_other_yaml_versions_convert_stays_text(text: str) -> None:
    assert parse(f"key: {text}\n").value == {"key": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [("017", 17), ("0o17", 15), ("0x1F", 31), ("-7", -7), ("+3", 3), ("1" * 40, int("1" * 40))],
)
def test_whole_numbers_are_of_the_core_schema(text: str, value: int) -> None:
    found = parse(f"key: {text}\n").value["key"]
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-6", "0.000001"), ("0.1", "0.1"), (".5", "0.5"), ("2.", "2"), ("+1.5E3", "1500"), ("0e9999", "0")],
)
def test_other_numbers_are_the_exact_decimals_written(text: str, value: str) -> None:
    found = parse(f"key: {text}\n").value["key"]
    assert type(found) is Decimal
    assert found == Decimal(value)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("'true'", "true"), ('"1"', "1")])
def test_only_true_and_false_are_truth_values_and_quotes_make_text(text: str, value: object) -> None:
    found = parse(f"key: {text}\n").value["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text_as_written() -> None:
    document = parse("no: a\n2026: b\ntrue: c\n1e3: d\n'quoted key': e\n")
    assert document.value == {"no": "a", "2026": "b", "true": "c", "1e3": "d", "quoted key": "e"}


def test_every_key_and_item_has_its_line() -> None:
    document = parse("# comment\na:\n  b: [1,\n    2]\n  c:\n    - x\n    - y\n")
    assert document.lines["a",] == 2
    assert document.lines["a", "b"] == 3
    assert document.lines["a", "b", 1] == 4
    assert document.lines["a", "c", 1] == 7
    assert document.line(("a", "c", "absent")) == 5
    assert document.line(("absent",)) == document.lines[()]


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter() -> None:
    document = parse("\ufeffa: 1\r\nb: 2\r\n")
    assert document.value == {"a": 1, "b": 2}
    assert document.lines["b",] == 2


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "a is given twice (first in line 1)"),
        ("a: {b: 1,\n b: 2}\n", 2, "b is given twice (first in line 1)"),
        ("a: &x [1]\nb: *x\n", 1, "anchors"),
        ("a: *x\n", 1, "aliases"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "tags"),
        ("a: !!str 1\n", 1, "tags"),
        ("a: !mine {b: 1}\n", 1, "tags"),
        ("!mine a: 1\n", 1, "tags"),
        ("? [a]\n: 1\n", 1, "not a plain name"),
        ("? {a: 1}\n: 1\n", 1, "not a plain name"),
        ("a: 1\n: 2\n", 2, "not a plain name"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("%YAML 1.1\n---\na: no\n", 1, "directive"),
        ("a: 1\nb:\n", 2, "no value"),
        ("a: 1\nb: ~\n", 2, "no value"),
        ("a: [null, x]\n", 1, "null is not a value"),
        ("a: 1\nb: c: d\n", 2, "not YAML"),
        ("a: 1\n\tb: 2\n", 2, "not YAML"),
        ("a: [1, 2\n", 2, "not YAML"),
        ("a: 'x\n", 2, "not YAML"),
        ("a: 1\nb: \x01\n", 2, "no text file should"),
        ("a: " + "9" * 41 + "\n", 1, "too many digits"),
        ("a: 1e301\n", 1, "outside what can be computed"),
        ("a: 1e-99999\n", 1, "outside what can be computed"),
        ("a: 1e99999999999999999999999\n", 1, "outside what can be computed"),
        ("\n" + "[" * 50 + "]" * 50, 2, "deeper"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(Problem, match="line") as caught:
        parse(text)
    assert caught.value.line == line
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_called_empty(text: str) -> None:
    with pytest.raises(Problem, match="the file is empty"):
        parse(text)


@pytest.mark.slow
def test_a_file_of_too_many_values_is_refused_before_it_is_built() -> None:
    with pytest.raises(Problem, match="larger or deeper"):
        parse("- 1\n" * (MOST_NODES + 1))
