"""Reading a study: files that are none, defaults, and how little it takes."""

import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpbayes.kinds.regression.section import RegressionSpec
from dpbayes.study.load import LARGEST_FILE, load_study
from dpbayes_core.errors import StudyInvalid

ROOT = Path(__file__).parents[3]
WAGES = ROOT / "examples/wages/study.yaml"
SMALLEST = """\
study: small
population: people
source: {path: "data-{period}.parquet", rows: 1000}
period: {grain: quarter}
columns: {y: {bounds: [-1, 1]}, x: {bounds: [0, 10]}, f: {levels: [a, b]}}
privacy: {budget: {lifetime: {pure-epsilon: 0.1}}}
releases: {r: {kind: regression, response: y, covariates: [x, f], mechanism: laplace, epsilon: 0.1}}
"""


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "small.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal_of(path: Path) -> StudyInvalid | None:
    try:
        load_study(path)
    except StudyInvalid as error:
        return error
    return None


def test_the_smallest_study_has_every_default(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, SMALLEST))
    assert study.source.unit is None
    assert study.source.max_rows_per_unit == 1
    assert study.period.people == "same"
    assert study.privacy.neighbours == "replace-one"
    assert study.privacy.delta is None
    assert not study.analyses
    assert study.schedule is None
    assert study.account().unit == "row"
    assert study.path == tmp_path / "small.yaml"
    assert study.text == SMALLEST.encode()


def test_an_analysis_has_the_defaults_of_the_prior_it_becomes(tmp_path: Path) -> None:
    from dpbayes.kinds.regression.prior import regression_prior
    from dpbayes_core.networks.posterior.prior import NetworkPrior
    from dpbayes_core.regression.independent_prior import IndependentPrior
    from dpbayes_core.regression.prior import Prior

    study = load_study(write(tmp_path, SMALLEST + "analyses: {a: {release: r}}\n"))
    analysis = study.analysis("a")
    assert (analysis.sampler, analysis.chains, analysis.draws, analysis.seed) == ("auto", 4, 1000, None)
    stated = analysis.prior.model_dump(exclude={"concentration", "law"}, exclude_none=True)
    release = study.release("r")
    assert isinstance(release, RegressionSpec)
    assert analysis.prior.law is None
    assert regression_prior(analysis.prior, release.regression(study.context)) == IndependentPrior()
    assert Prior.from_user(stated, release.regression(study.context)) == Prior()
    assert analysis.prior.concentration == NetworkPrior().concentration


def test_privacy_losses_are_the_decimals_that_were_written(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, SMALLEST))
    assert study.release("r").epsilon == Decimal("0.1")
    assert study.release("r").epsilon != 0.1, "the nearest double is another number"
    assert study.account().caps[0].limit == Decimal("0.1")


def test_the_example_of_the_repository_is_read_whole() -> None:
    study = load_study(WAGES)
    assert [(cap.name, cap.measure, cap.limit, cap.delta) for cap in study.account().caps] == [
        ("lifetime", "epsilon-delta", 8, Decimal("1e-6")),
        ("per-period", "epsilon-delta", 1, Decimal("1e-6")),
        ("programme labour-statistics", "epsilon-delta", 20, Decimal("1e-6")),
    ]
    assert study.columns["female"].levels == ("no", "yes")
    assert study.schedule is not None
    assert study.schedule.timezone == "Europe/Amsterdam"


def test_a_cap_of_epsilon_may_have_its_own_delta(tmp_path: Path) -> None:
    text = SMALLEST.replace("{pure-epsilon: 0.1}", "{epsilon: 1, delta: 1e-8}")
    assert load_study(write(tmp_path, text)).account().caps[0].delta == Decimal("1e-8")


def test_people_who_never_come_back_need_no_lifetime_cap(tmp_path: Path) -> None:
    text = SMALLEST.replace("quarter}", "quarter, people: disjoint}").replace("lifetime", "per-period")
    assert [cap.window for cap in load_study(write(tmp_path, text)).account().caps] == ["per-period"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "the file is empty"),
        (b"# nothing\n", "the file is empty"),
        (b"- a\n- b\n", "line 1: it is not a list of keys and values"),
        (b"just words\n", "not a list of keys"),
        (b"study: caf\xe9\n", "line 1: it is not UTF-8"),
        (b"study: a\nx: \xff\n", "line 2: it is not UTF-8"),
        ("study: a".encode("utf-16"), "not UTF-8"),
        (b"PAR1\x00\x00\x00", "no text file should"),
        (b"a: " + b"x" * LARGEST_FILE, "larger than any study file"),
        (b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "line 1, a: anchors"),
    ],
)
def test_a_file_that_is_no_study_is_one_sentence(tmp_path: Path, text: bytes, words: str) -> None:
    with pytest.raises(StudyInvalid, match=r"^cannot read study small\.yaml: ") as caught:
        load_study(write(tmp_path, text))
    assert words in str(caught.value)


def test_a_missing_file_a_folder_and_an_impossible_path_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StudyInvalid, match=r"cannot read study absent\.yaml: there is no such file\. Check"):
        load_study(tmp_path / "absent.yaml")
    with pytest.raises(StudyInvalid, match="it is a folder"):
        load_study(tmp_path)
    with pytest.raises(StudyInvalid, match="cannot read study"):
        load_study("a\0b.yaml")
    with pytest.raises(StudyInvalid, match="cannot read study"):
        load_study("x" * 5000)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(StudyInvalid, match="it is not a file"):  # and does not wait for one
        load_study(tmp_path / "pipe.yaml")


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(
    at=st.integers(0, 10_000),
    cut=st.integers(0, 30),
    put=st.one_of(
        st.text(max_size=8), st.sampled_from(["[", "{", ": ", "- ", "&a ", "*a", "!x ", "\t", ".nan", "1e999"])
    ),
)
def test_whatever_is_done_to_a_study_it_is_read_or_refused_in_one_line(
    tmp_path: Path, at: int, cut: int, put: str
) -> None:
    text = WAGES.read_text()
    at %= len(text)
    path = write(tmp_path, (text[:at] + put + text[at + cut :]).encode("utf-8", "surrogatepass"))
    refused = refusal_of(path)
    if refused is not None:
        assert type(refused) is StudyInvalid
        assert re.fullmatch(r"cannot read study small\.yaml: .*[.?]", str(refused))
        assert str(refused).isprintable()


def test_a_release_or_an_analysis_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    study = load_study(WAGES)
    with pytest.raises(StudyInvalid, match=r"cannot find release wage: study wages has none\. .*wage-regression"):
        study.design("wage")
    with pytest.raises(StudyInvalid, match=r"cannot find analysis wage-posterio: .*Did you mean wage-posterior"):
        study.analysis("wage-posterio")


@pytest.mark.slow
def test_reading_a_study_imports_nothing_heavy() -> None:
    heavy = (
        "pandas",
        "pyarrow",
        "scipy",
        "numba",
        "prefect",
        "great_expectations",
        "opendp",
        "distributed",
        "sqlalchemy",
    )
    program = (
        "import sys; from dpbayes.study.load import load_study; study = load_study(sys.argv[1]); "
        "study.request('wage-regression', '2026-01').hash; import docs.generate.study_reference; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(WAGES)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_samplers_a_study_may_name_are_the_ones_there_are() -> None:
    from typing import get_args

    from dpbayes.kinds.registry import SamplerName
    from dpbayes_core.samplers.registry import SAMPLERS

    assert set(get_args(SamplerName)) == {"auto", *SAMPLERS}
