"""Pictures shown next to the parameters, as inline SVG: a network, and a curve over given points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpbayes.kinds.texts import Curve, Graph
from dpbayes.markup.numbers import tick_labels, ticks
from dpbayes.markup.svg import line, points, tag, text
from dpbayes.pages.views import GraphPicture

LETTER, MARGIN, HEIGHT = 7.6, 22.0, 30.0  # px: width of a letter, margins of a name, height of a box
GAP, DROP = 26.0, 74.0  # px between boxes, and from one layer to the next
WIDEST = 720.0  # px of a layer; a wider one is wrapped into rows
_LONGEST = 24  # letters of a name
CURVE_WIDTH, CURVE_HEIGHT = 680.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 12.0, 34.0  # px

Line = Mapping[str, Any]


@dataclass(frozen=True)
class _Box:
    """The position of a node."""

    x: float
    y: float
    width: float


def pictures(graphs: Sequence[Graph]) -> tuple[GraphPicture, ...]:
    """Each graph with its picture."""
    return tuple(
        GraphPicture(graph.title, graph.note, _picture(graph, number)) for number, graph in enumerate(graphs, start=1)
    )


def _picture(graph: Graph, number: int) -> Markup:
    rows = [row for layer in _layers(graph) for row in _wrapped(layer)]
    boxes, width = _placed(rows)
    height = DROP * (len(rows) - 1) + HEIGHT + 4
    words = "; ".join(f"{parent} to {child}" for parent, child in graph.edges) or "no edges"
    edges = [_edge(boxes[parent], boxes[child], number) for parent, child in graph.edges]
    nodes = [_node(name, boxes[name]) for name in graph.nodes]
    description = {"role": "img", "aria_label": f"{graph.title}: {words}"}
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "style": f"max-width: {width:.0f}px"}
    return tag("svg", _arrow(number), *edges, *nodes, class_="network", **description, **size)


def _arrow(number: int) -> Markup:
    head = tag("path", class_="arrow", d="M0 0 8 4 0 8z")
    size = {"viewBox": "0 0 8 8", "refX": "7", "refY": "4", "markerWidth": "7", "markerHeight": "7", "orient": "auto"}
    return tag("defs", tag("marker", head, id=f"arrow-{number}", **size))


def _layers(graph: Graph) -> list[list[str]]:
    """Nodes by the length of the longest path from a node without parents, close to their parents."""
    depth: dict[str, int] = {}
    above: Mapping[str, list[str]] = {name: [p for p, child in graph.edges if child == name] for name in graph.nodes}

    def depth_of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((depth_of(parent) for parent in above[name]), default=-1)
        return depth[name]

    layers: list[list[str]] = [[] for _ in range(1 + max(depth_of(name) for name in graph.nodes))]
    place: dict[str, float] = {}
    for name in sorted(graph.nodes, key=depth_of):
        layers[depth_of(name)].append(name)
    for layer in layers:
        layer.sort(key=lambda name: sum(place[p] for p in above[name]) / max(len(above[name]), 1))
        place |= {name: (k + 0.5) / len(layer) for k, name in enumerate(layer)}
    return layers


def _wrapped(layer: Sequence[str]) -> list[list[str]]:
    """A layer in rows that are not too wide."""
    rows: list[list[str]] = [[]]
    for name in layer:
        if rows[-1] and _row_width([*rows[-1], name]) > WIDEST:
            rows.append([])
        rows[-1].append(name)
    return rows


def _placed(rows: Sequence[Sequence[str]]) -> tuple[dict[str, _Box], float]:
    width = max(_row_width(row) for row in rows) + 4
    boxes: dict[str, _Box] = {}
    for level, row in enumerate(rows):
        x = (width - _row_width(row)) / 2
        for name in row:
            boxes[name] = _Box(x, 2 + DROP * level, _box_width(name))
            x += _box_width(name) + GAP
    return boxes, width


def _box_width(name: str) -> float:
    return LETTER * len(_shown(name)) + MARGIN


def _row_width(names: Sequence[str]) -> float:
    return sum(_box_width(name) for name in names) + GAP * (len(names) - 1)


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _edge(parent: _Box, child: _Box, number: int) -> Markup:
    x1, y1 = parent.x + parent.width / 2, parent.y + HEIGHT
    x2, y2 = child.x + child.width / 2, child.y - 1
    bend = (y2 - y1) / 2
    path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    return tag("path", class_="edge", d=path, marker_end=f"url(#arrow-{number})")


def _node(name: str, box: _Box) -> Markup:
    middle, low = box.x + box.width / 2, box.y + HEIGHT / 2 + 5
    size = {"width": f"{box.width:.1f}", "height": f"{HEIGHT:.0f}", "rx": "5"}
    frame = tag("rect", class_="node", x=f"{box.x:.1f}", y=f"{box.y:.1f}", **size)
    return tag("g", tag("title", name), frame, text(_shown(name), f"{middle:.1f}", f"{low:.1f}", "middle"))


def curve_picture(curve: Curve, lines: Sequence[Line]) -> GraphPicture:
    """The posterior means with their band, on a scale from 0 to 1."""
    known = {one["name"]: one for one in lines}
    given = sorted((x, known[name]) for x, name in curve.points if name in known)
    low, high = given[0][0], given[-1][0]

    def across(x: float) -> float:
        return LEFT + (CURVE_WIDTH - LEFT - RIGHT) * (x - low) / (high - low)

    def up(y: float) -> float:
        return TOP + (CURVE_HEIGHT - TOP - BOTTOM) * (1 - y)

    band = [(across(x), up(one["q975"])) for x, one in given]
    band += [(across(x), up(one["q025"])) for x, one in reversed(given)]
    middle = [(across(x), up(one["mean"])) for x, one in given]
    xs, ys = ticks(low, high), (0.0, 0.25, 0.5, 0.75, 1.0)
    parts = [line("grid", LEFT, f"{up(y):.1f}", CURVE_WIDTH - RIGHT, f"{up(y):.1f}") for y in ys]
    parts += [_text(LEFT - 6, up(y) + 4, f"{y:g}", "end") for y in ys]
    parts += [
        _text(across(x), CURVE_HEIGHT - BOTTOM + 18, label, "middle")
        for x, label in zip(xs, tick_labels(xs), strict=True)
    ]
    parts.append(tag("polygon", class_="band", points=_path(band)))
    parts.append(tag("polyline", class_="middle", points=_path(middle)))
    parts += [tag("circle", class_="middle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.5) for x, y in middle]
    named = {"role": "img", "aria_label": curve.title, "viewBox": f"0 0 {CURVE_WIDTH:.0f} {CURVE_HEIGHT:.0f}"}
    return GraphPicture(curve.title, curve.note, tag("svg", *parts, class_="curve", **named))


def _path(places: Sequence[tuple[float, float]]) -> str:
    return points((f"{x:.1f}", f"{y:.1f}") for x, y in places)


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return text(words, f"{x:.1f}", f"{y:.1f}", anchor)
