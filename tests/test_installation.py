"""What an installation brings: the product without tools of development, and the mathematics alone."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.command import ROOT

TESTING = {"pytest", "pytest-xdist", "hypothesis", "ruff", "basedpyright", "playwright", "moto", "jsonschema", "uv"}
OFFLINE = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
CORE = "dpbayes_core/pyproject.toml"
PRODUCT = ("dpbayes_core", "storage", "dpbayes", "tasks", "flows", "cli", "examples")
ANALYSED = """
from dpbayes_core import Bounds, Continuous, GaussianMechanism, Prior, RegressionSchema, SeededNoise, sample
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.moments import regression_statistics
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
import dpbayes_core, importlib, pkgutil, sys
import numpy as np

schema = RegressionSchema(Continuous("y", Bounds(-1, 1)), (Continuous("x", Bounds(-1, 1)),))
x = np.linspace(-0.9, 0.9, 500)
sums = regression_statistics(schema, {"x": x, "y": 0.5 * x})
noise = gaussian_for(regression_sensitivity(schema), epsilon=1.0, delta=1e-6, grid=20)
seeded = SeededNoise(1, i_know_this_is_not_private=True)
release = RegressionDesign(schema=schema, mechanism=noise).release(seeded, sums)
for each in pkgutil.walk_packages(dpbayes_core.__path__, "dpbayes_core."):
    importlib.import_module(each.name)
posterior = sample(release, Prior(), sampler="naive", chains=2, draws=50, seed=1)
print(sorted(posterior.draws), "prefect" in sys.modules)
"""


def wheel(folder: Path, tmp_path: Path) -> Path:
    """A wheel of a copy of the sources: a build leaves files beside them."""
    copy = tmp_path / "copy"
    kept = shutil.ignore_patterns("__pycache__", ".*", "tests", "docs", "bench", "demo", "build", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=kept)
    place = tmp_path / "wheels"
    program = [sys.executable, "-m", "pip", "wheel", *OFFLINE, "-w", str(place), str(copy / folder)]
    subprocess.run(program, check=True, cwd=tmp_path)
    return next(place.glob("*.whl"))


def needs(wheel: Path) -> list[Requirement]:
    """What a wheel asks for."""
    with ZipFile(wheel) as files:
        name = next(each for each in files.namelist() if each.endswith("METADATA"))
        found = Parser().parsestr(files.read(name).decode())
    return [Requirement(each) for each in found.get_all("Requires-Dist") or []]


@pytest.mark.slow
def test_the_product_brings_no_tool_of_its_development(tmp_path: Path) -> None:
    made = wheel(Path(), tmp_path)
    plain = {canonicalize_name(each.name) for each in needs(made) if each.marker is None}
    assert not plain & TESTING
    assert not plain & {"s3fs", "psycopg"}
    extras = {name: [each for each in needs(made) if name in str(each.marker)] for name in ("dev", "s3", "postgres")}
    assert all(extras.values())
    with ZipFile(made) as files:
        names = set(files.namelist())
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == set(PRODUCT)
    data = (path for room in PRODUCT for path in (ROOT / room).rglob("*") if path.suffix in {".j2", ".css", ".json"})
    assert {path.relative_to(ROOT).as_posix() for path in data} <= names


def closure(names: set[str]) -> Iterator[str]:
    """Installed distributions that these need, themselves included."""
    waiting, seen = [canonicalize_name(name) for name in names], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            asked = distribution(name).requires or []
        except PackageNotFoundError:  # for another platform, or another Python
            continue
        yield name
        wanted = (Requirement(each) for each in asked)
        waiting += [canonicalize_name(each.name) for each in wanted if each.marker is None or each.marker.evaluate()]


@pytest.mark.slow
def test_the_core_installs_alone_and_analyses_without_the_rest(tmp_path: Path) -> None:
    made, site = wheel(Path("dpbayes_core"), tmp_path), tmp_path / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", *OFFLINE, "--target", str(site), str(made)], check=True)
    for name in closure({each.name for each in needs(made)}):
        installed = distribution(name)
        for top in {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(installed.locate_file(top))))
    program = f"import sys; sys.path.insert(0, {str(site)!r}); exec({ANALYSED!r})"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "['(intercept)', 'sigma', 'x'] False\n", done.stderr
    lacking = f"import sys; sys.path.insert(0, {str(site)!r}); import prefect"
    assert subprocess.run([sys.executable, "-I", "-S", "-c", lacking], capture_output=True, check=False).returncode


@pytest.mark.parametrize("key", ["version", "requires-python"])
def test_the_core_says_the_same_of_itself_as_the_product(key: str) -> None:
    whole, core = (tomllib.loads((ROOT / f).read_text())["project"] for f in ("pyproject.toml", CORE))
    assert whole[key] == core[key]
    assert set(core["dependencies"]) <= set(whole["dependencies"])
