"""Which module imports which: imports inside functions and under TYPE_CHECKING count as any other."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, frozenset[str]]


def module_of(path: Path, root: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[tuple[str, str | None]]:
    """(module, name) of every import; no name where the module itself is imported."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name) for alias in node.names)


def graph_of(root: Path, rooms: Iterable[str]) -> Graph:
    """The project's modules that each of them imports."""
    files = {module_of(path, root): path for room in rooms for path in sorted((root / room).rglob("*.py"))}
    found: dict[str, frozenset[str]] = {}
    for module, path in files.items():
        whole = (f"{home}.{name}" if f"{home}.{name}" in files else home for home, name in imported(path))
        found[module] = frozenset(name for name in whole if name in files and name != module)
    return found


def cycles_among_siblings(graph: Graph) -> list[tuple[str, ...]]:
    """Groups of modules or subpackages of one package that import each other in cycles."""
    packages = {".".join(parts[:depth]) for parts in map(_parts, graph) for depth in range(1, len(parts))}
    return [group for package in sorted(packages) for group in _cycles(_among_children(graph, package))]


def _among_children(graph: Graph, package: str) -> dict[str, set[str]]:
    depth, inside = package.count(".") + 2, f"{package}."
    found: dict[str, set[str]] = {}
    for module, needed in graph.items():
        if module.startswith(inside):
            child = _child(module, depth)
            others = {_child(name, depth) for name in needed if name.startswith(inside)}
            found.setdefault(child, set()).update(others - {child})
    return found


def _cycles(edges: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    reached = {one: _reached(one, edges) for one in edges}
    groups = {tuple(sorted(two for two in edges if two in reached[one] and one in reached[two])) for one in edges}
    return sorted(group for group in groups if group)


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(edges.get(one, ()))
    return found


def _child(module: str, depth: int) -> str:
    return ".".join(_parts(module)[:depth])


def _parts(module: str) -> list[str]:
    return module.split(".")
