"""The rules of the rooms, checked on the source itself."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("dpbayes_core", "storage", "tasks", "flows", "studies")
MAY_IMPORT = {
    "dpbayes_core": {"dpbayes_core"},
    "storage": {"dpbayes_core", "storage"},
    "tasks": {"dpbayes_core", "storage", "tasks"},
    "flows": {"dpbayes_core", "storage", "tasks", "flows", "studies"},
    "studies": {"dpbayes_core", "storage", "studies"},
}
FORBIDDEN = {
    "dpbayes_core": {
        "prefect",
        "dask",
        "distributed",
        "pandas",
        "great_expectations",
        "os",
        "time",
        "datetime",
        "pathlib",
        "socket",
        "random",
    },
    "storage": {"prefect", "dask", "distributed"},
    "tasks": set[str](),
    "flows": {"dask", "distributed", "pyarrow", "sqlalchemy"},
    "studies": {"prefect", "dask", "distributed"},
}
LONGEST_MODULE = 300
LONGEST_FUNCTION = 40
MOST_POSITIONAL = 5


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            yield str(node.module)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    for path in modules(room):
        used = {name.split(".")[0] for name in imports(path)}
        assert used & set(ROOMS) <= MAY_IMPORT[room], name_of(path)
        assert not used & FORBIDDEN[room], f"{name_of(path)} imports {used & FORBIDDEN[room]}"


def test_the_room_check_can_fail(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import prefect\nfrom storage.home.home import Home\n")
    used = {name.split(".")[0] for name in imports(wrong)}
    assert used & FORBIDDEN["dpbayes_core"]
    assert not used & set(ROOMS) <= MAY_IMPORT["dpbayes_core"]


def test_flows_meet_only_in_the_run_flow_and_the_launcher() -> None:
    flows_of_work = {"flows.release", "flows.inspect_source", "flows.analyse", "flows.run"}
    composers = {"run.py", "launch.py"}
    for path in modules("flows"):
        if path.name not in composers:
            assert not set(imports(path)) & flows_of_work, name_of(path)


@pytest.mark.parametrize("room", ROOMS)
def test_modules_and_functions_stay_short(room: str) -> None:
    for path in modules(room):
        assert len(path.read_text().splitlines()) <= LONGEST_MODULE, f"{name_of(path)} is too long: split it"
        for function in functions(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{name_of(path)}: {function.name} has {length} lines"


@pytest.mark.parametrize("room", ROOMS)
def test_functions_take_few_positional_parameters(room: str) -> None:
    for path in modules(room):
        for function in functions(path):
            if any("njit" in ast.unparse(d) or "app.command" in ast.unparse(d) for d in function.decorator_list):
                continue  # compiled kernels take flat arrays; commands take options by name
            positional = [a.arg for a in function.args.posonlyargs + function.args.args if a.arg not in ("self", "cls")]
            assert len(positional) <= MOST_POSITIONAL, f"{name_of(path)}: {function.name}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_docstring(room: str) -> None:
    for path in modules(room):
        tree = ast.parse(path.read_text())
        for node in [tree, *tree.body]:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            if public or (isinstance(node, ast.Module) and node.body):
                assert ast.get_docstring(node), f"{name_of(path)}: {getattr(node, 'name', 'module')} has no docstring"


@pytest.mark.parametrize("room", [*ROOMS, "bench", "tools", "dpbayes_core/samplers", "dpbayes_core/mechanisms"])
def test_every_room_has_a_readme_of_one_screen(room: str) -> None:
    assert 3 <= len((ROOT / room / "README.md").read_text().splitlines()) <= 50


def test_nothing_is_unpickled_and_no_yaml_tag_is_obeyed() -> None:
    for room in ROOMS:
        for path in modules(room):
            assert "pickle" not in set(imports(path)), name_of(path)
            assert "yaml" not in set(imports(path)), f"{name_of(path)}: PyYAML reads YAML 1.1"


def test_no_absolute_path_of_a_machine_stands_in_the_source() -> None:
    for room in (*ROOMS, "tests", "bench", "tools", "docs"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in {".py", ".md", ".yaml", ".j2"}:
                text = path.read_text()
                assert not any(f"/{top}/" in text for top in ("root", "work", "home/user")), name_of(path)


HEAVY = (
    "prefect",
    "great_expectations",
    "arviz",
    "arviz_stats",
    "numba",
    "scipy.stats",
    "pandas",
    "pyarrow",
    "distributed",
    "opendp",
)


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split("\n")[-2].split())


def test_help_imports_nothing_heavy() -> None:
    call = "from typer.testing import CliRunner; from cli.main import app"
    assert loaded_by(f"{call}; assert CliRunner().invoke(app, ['--help']).exit_code == 0") == set()


def test_no_flow_takes_the_name_of_a_module_of_pythons_own() -> None:
    names = {path.stem for path in modules("flows")}
    assert not names & sys.stdlib_module_names, "Prefect puts the folder of a flow's file before Python's own"


def test_the_core_imports_without_orchestration_or_pandas() -> None:
    absent = "sys.modules.update({m: None for m in ('prefect', 'dask', 'distributed', 'pandas', 'great_expectations')})"
    names = [name_of(path)[:-3].replace("/", ".").removesuffix(".__init__") for path in modules("dpbayes_core")]
    program = f"import sys; {absent}; " + "; ".join(f"import {name}" for name in names)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
