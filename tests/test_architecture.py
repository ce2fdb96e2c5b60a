"""The rules of the rooms, checked on the source itself."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.import_graph import Graph, cycles_among_siblings, graph_of

ROOT = Path(__file__).parent.parent
ROOMS = ("dpbayes_core", "storage", "dpbayes", "tasks", "flows", "cli")
"""From the bottom to the top: a room imports itself and what stands before it."""

EXAMPLES = "examples"  # study files and their synthetic data; `dpbayes init` copies them
CYCLES: tuple[tuple[str, ...], ...] = ()
"""Groups of siblings that still need each other: this list only shrinks."""

PASS = "dpbayes.secure"
MAY_SEE_ROWS = {"tasks.secure_pass", "tasks.release_statistics", "tasks.inspect_table", "cli.check"}
"""The secure tasks, and the command that looks at a table's declared shape."""

SEALED = "dpbayes.secure.cluster"
CARRIES_SEALED_WORK = {"tasks.sealed_pass"}
"""Gives sealed work to a cluster: of the confidential pass it imports `SEALED` alone."""

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
    "storage": {"prefect", "dask", "distributed", "pandas", "great_expectations", "jinja2"},
    "dpbayes": {"prefect", "dask", "distributed"},
    "tasks": set[str](),
    "flows": {"dask", "distributed", "pyarrow", "sqlalchemy"},
    "cli": {"dask", "distributed", "pyarrow", "sqlalchemy"},
    EXAMPLES: {"prefect", "dask", "distributed"},
}
LONGEST_MODULE = 450
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


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(ROOT, (*ROOMS, EXAMPLES))


def upward(graph: Graph) -> list[tuple[str, str]]:
    """Imports of a room that stands above the importing one."""
    place = {room: at for at, room in enumerate(ROOMS)} | {EXAMPLES: len(ROOMS) - 1}
    pairs = ((module, name) for module, needed in graph.items() for name in needed)
    return sorted((module, name) for module, name in pairs if place[room_of(module)] < place[room_of(name)])


def room_of(module: str) -> str:
    return module.partition(".")[0]


def test_no_room_imports_one_above_it(graph: Graph) -> None:
    assert upward(graph) == []


@pytest.mark.parametrize("room", [*ROOMS, EXAMPLES])
def test_a_room_keeps_away_from_what_is_not_its_own(room: str) -> None:
    for path in modules(room):
        used = {name.split(".")[0] for name in imports(path)}
        assert not used & FORBIDDEN[room], f"{name_of(path)} imports {used & FORBIDDEN[room]}"


def test_no_package_has_parts_that_need_each_other(graph: Graph) -> None:
    assert cycles_among_siblings(graph) == list(CYCLES)


def seeing(graph: Graph) -> set[str]:
    """Modules outside the confidential pass that import any of it, except those that carry sealed work only."""
    found: set[str] = set()
    for module in (module for module in graph if not module.startswith(PASS)):
        parts = {name for name in graph[module] if name.startswith(PASS)}
        if module in CARRIES_SEALED_WORK:
            parts = {name for name in parts if not name.startswith(SEALED)}
        found |= {module} if parts else set()
    return found


def test_the_confidential_pass_is_imported_where_rows_may_be_and_nowhere_else(graph: Graph) -> None:
    assert seeing(graph) == MAY_SEE_ROWS
    assert {module for module in CARRIES_SEALED_WORK if any(name.startswith(SEALED) for name in graph[module])} == (
        CARRIES_SEALED_WORK
    )


SENDERS = {"submit", "scatter", "map", "persist", "compute", "publish_dataset", "run", "run_on_scheduler"}
"""Methods of Dask's client by which something leaves this process."""


def sent_by(source: str) -> list[str]:
    """What a module hands to Dask, call by call: the function, then its arguments."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    sending = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr in SENDERS]
    return [", ".join(ast.unparse(argument) for argument in (*one.args, *one.keywords)) for one in sending]


def test_nothing_but_sealed_work_is_handed_to_the_secure_cluster() -> None:
    source = (ROOT / "tasks" / "sealed_pass.py").read_text()
    assert sent_by(source) == [
        "number, do_sealed, number, sealed, ring.entries",
        "number, do_sealed, number, under_way[number], ring.entries",
    ]
    assert sent_by("client.submit(0, read, batch)\nclient.scatter(rows=table)") == ["0, read, batch", "rows=table"]


def outside_support(root: Path) -> list[tuple[str, str]]:
    """Imports of what tests share, from tests that do not share it."""
    shared = sorted((root / "tests" / "support").rglob("*.py"))
    found = ((path.name, name) for path in shared for name in imports(path))
    return [(path, name) for path, name in found if f"{name}.".startswith("tests.") and "tests.support" not in name]


def test_what_tests_share_imports_no_test() -> None:
    assert outside_support(ROOT) == []


def test_the_guards_can_fail(tmp_path: Path) -> None:
    files = {
        "dpbayes_core/wrong.py": "def late():\n    from storage.home import Home\n",
        "storage/home.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from storage import ledger\n",
        "storage/ledger/__init__.py": "import storage.home\n",
        "tests/support/wrong.py": "def late():\n    from tests.storage.test_home import mode\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    files = {
        "dpbayes/secure/batches.py": "",
        "dpbayes/secure/cluster/work.py": "",
        "tasks/sealed_pass.py": "def late():\n    from dpbayes.secure.batches import read_part\n",
        "tasks/other.py": "import dpbayes.secure.cluster.work\n",
    }
    for name, text in files.items():
        (tmp_path / "more" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "more" / name).write_text(text)
    assert seeing(graph_of(tmp_path / "more", ROOMS)) == {"tasks.sealed_pass", "tasks.other"}
    wrong = graph_of(tmp_path, ROOMS)
    assert upward(wrong) == [("dpbayes_core.wrong", "storage.home")]
    assert cycles_among_siblings(wrong) == [("storage.home", "storage.ledger")]
    assert outside_support(tmp_path) == [("wrong.py", "tests.storage.test_home")]


@pytest.mark.parametrize("room", [*ROOMS, EXAMPLES])
def test_modules_and_functions_stay_short(room: str) -> None:
    for path in modules(room):
        assert len(path.read_text().splitlines()) <= LONGEST_MODULE, f"{name_of(path)} is too long: split it"
        for function in functions(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{name_of(path)}: {function.name} has {length} lines"


@pytest.mark.parametrize("room", [*ROOMS, EXAMPLES])
def test_functions_take_few_positional_parameters(room: str) -> None:
    for path in modules(room):
        for function in functions(path):
            if any("njit" in ast.unparse(d) for d in function.decorator_list):
                continue  # compiled kernels take flat arrays
            positional = [a.arg for a in function.args.posonlyargs + function.args.args if a.arg not in ("self", "cls")]
            assert len(positional) <= MOST_POSITIONAL, f"{name_of(path)}: {function.name}"


@pytest.mark.parametrize("room", [*ROOMS, EXAMPLES])
def test_every_public_name_has_a_docstring(room: str) -> None:
    for path in modules(room):
        tree = ast.parse(path.read_text())
        for node in [tree, *tree.body]:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            if public or (isinstance(node, ast.Module) and node.body):
                assert ast.get_docstring(node), f"{name_of(path)}: {getattr(node, 'name', 'module')} has no docstring"


@pytest.mark.parametrize(
    "room", [*ROOMS, EXAMPLES, "bench", "tools", "dpbayes_core/samplers", "dpbayes_core/privacy/mechanisms"]
)
def test_every_room_has_a_readme_of_one_screen(room: str) -> None:
    assert 3 <= len((ROOT / room / "README.md").read_text().splitlines()) <= 50


def test_nothing_is_unpickled_and_no_yaml_tag_is_obeyed() -> None:
    for room in (*ROOMS, EXAMPLES):
        for path in modules(room):
            assert "pickle" not in set(imports(path)), name_of(path)
            assert "yaml" not in set(imports(path)), f"{name_of(path)}: PyYAML reads YAML 1.1"


def test_no_absolute_path_of_a_machine_stands_in_the_source() -> None:
    for room in (*ROOMS, EXAMPLES, "tests", "bench", "tools", "docs"):
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
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "distributed",
    "opendp",
    "sqlalchemy",
    "pydantic",
    "cryptography",
    "jinja2",
    "ruamel",
)


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--help"], 0), (["--version"], 0), (["ledger", "--help"], 0), (["relaese"], 2), (["ledger", "shwo"], 2)],
)
def test_help_version_and_slips_import_nothing_heavy(words: list[str], code: int) -> None:
    call = "from typer.testing import CliRunner; from cli.commands import app"
    loaded = loaded_by(f"{call}; assert CliRunner().invoke(app, {words!r}).exit_code == {code}")
    assert loaded - {"pydantic"} == set()  # typer takes it to read the words before a command's name


def test_the_guard_of_imports_can_fail() -> None:
    assert loaded_by("import cli.check") >= {"numpy", "pydantic", "sqlalchemy"}


def test_every_command_has_a_module_of_its_own_name() -> None:
    from typer.main import get_command

    from cli.commands import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {name: home_of(command) for name, command in commands.items()} == {
        name: home_named(name) for name in commands
    }


def home_of(command: Any) -> str:
    """Where a command is defined; of a group, the package that has all of its commands."""
    inside = getattr(command, "commands", {}).values()
    if not inside:
        return str(command.imported().callback.__module__)
    (package,) = {home_of(one).rpartition(".")[0] for one in inside}
    return package


def home_named(name: str) -> str:
    """Where a command of that name belongs; `_command` tells it from a module of Python's own."""
    return f"cli.{name}_command" if name in sys.stdlib_module_names else f"cli.{name.replace('-', '_')}"


def test_no_flow_takes_the_name_of_a_module_of_pythons_own() -> None:
    names = {path.stem for path in modules("flows")}
    assert not names & sys.stdlib_module_names, "Prefect puts the folder of a flow's file before Python's own"


def test_the_core_imports_without_orchestration_or_pandas() -> None:
    absent = "sys.modules.update({m: None for m in ('prefect', 'dask', 'distributed', 'pandas', 'great_expectations')})"
    names = [name_of(path)[:-3].replace("/", ".").removesuffix(".__init__") for path in modules("dpbayes_core")]
    program = f"import sys; {absent}; " + "; ".join(f"import {name}" for name in names)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
