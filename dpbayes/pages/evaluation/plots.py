"""Box plots as SVG that stands alone: text keeps its size, every string is escaped, nothing moves or loads."""

from markupsafe import Markup

from dpbayes_core.experiments.interface import Box, Figure, Panel

PANEL, HEIGHT, LEFT, TOP, BOTTOM = 300, 220, 56, 58, 54  # px
TICKS = 4

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;font-size:13px;margin:1rem 0;display:block;overflow-x:auto}"
    "td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:nth-child(5),th:nth-child(5){text-align:left}svg{max-width:100%;height:auto;margin:1rem 0}"
)
_LOOK = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#e4e4e4}.whisker{stroke:#2b5c8a}.box{fill:#cfe0f0;stroke:#2b5c8a}"
    ".middle{stroke:#2b5c8a;stroke-width:2}.truth{fill:#c2410c}"
)


def box_plot(figure: Figure) -> str:
    """The panels side by side on one vertical axis."""
    width = LEFT + max(PANEL * len(figure.panels), 9 * len(figure.title)) + 8  # a letter of the title is 9 wide at most
    parts = [_axis(figure, width)]
    parts += [_panel(panel, figure, LEFT + PANEL * place) for place, panel in enumerate(figure.panels)]
    name = figure.name
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
            'aria-labelledby="{n}-t {n}-d"><title id="{n}-t">{t}</title><desc id="{n}-d">{d}</desc>'
            '<style>{s}</style><text class="title" x="{x}" y="20">{t}</text>{b}</svg>\n'
        ).format(
            w=width,
            h=TOP + HEIGHT + BOTTOM,
            n=name,
            t=figure.title,
            d=figure.words,
            s=Markup(_LOOK),
            x=LEFT,
            b=Markup("").join(parts),
        )
    )


def _axis(figure: Figure, width: int) -> Markup:
    low, high = figure.limits
    line = Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/><text x="{}" y="{}" text-anchor="end">{}</text>')
    lines: list[Markup] = []
    for tick in range(TICKS + 1):
        value = low + (high - low) * tick / TICKS
        y = _height(value, figure)
        lines.append(line.format(LEFT, y, width - 8, y, LEFT - 6, y + 4, f"{value:g}"))
    label = Markup('<text transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>')
    return Markup("").join([*lines, label.format(TOP + HEIGHT / 2, figure.axis)])


def _panel(panel: Panel, figure: Figure, left: int) -> Markup:
    title = Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>')
    room = (PANEL - 16) / max(len(panel.boxes), 1)
    boxes = [_box(box, figure, left + 8 + room * (place + 0.5), room) for place, box in enumerate(panel.boxes)]
    return Markup("").join([title.format(left + PANEL / 2, TOP - 12, panel.title), *boxes])


def _box(box: Box, figure: Figure, x: float, room: float) -> Markup:
    lowest, low, middle, high, highest = (_height(value, figure) for value in box.quantiles)
    half, y = room * 0.32, TOP + HEIGHT + 12
    parts = [
        _line("whisker", x, lowest, x, highest),
        Markup('<rect class="box" x="{}" y="{}" width="{}" height="{}"/>').format(
            _n(x - half), high, _n(2 * half), _n(low - high)
        ),
        _line("middle", x - half, middle, x + half, middle),
        Markup('<text transform="translate({} {}) rotate(-45)" text-anchor="end">{}</text>').format(
            _n(x + 4), y, box.place
        ),
    ]
    if box.truth is not None:
        parts.append(Markup('<circle class="truth" cx="{}" cy="{}" r="3"/>').format(_n(x), _height(box.truth, figure)))
    return Markup("").join(parts)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    form = Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>')
    return form.format(kind, _n(x1), _n(y1), _n(x2), _n(y2))


def _height(value: float, figure: Figure) -> float:
    low, high = figure.limits
    share = (min(max(value, low), high) - low) / (high - low)
    return round(TOP + HEIGHT * (1 - share), 2)


def _n(value: float) -> float:
    return round(value, 2)
