"""Renders every page: one Jinja environment that escapes all values and fails on unknown names."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dpbayes.markup.visible import visible_page

if TYPE_CHECKING:
    from jinja2 import Environment

COMMON_STYLE = "dpbayes.markup/style.css"


def set_page(template: str, shown: Any, *styles: str) -> str:
    """A page from its template, with style sheets inside; files are named `package/file`. Equal input, equal bytes."""
    # marked safe: these are the program's own files, nothing of a study is in them
    style = Markup("\n".join(_text(sheet) for sheet in styles))
    return visible_page(_environment().get_template(template).render(page=shown, style=style))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def _text(name: str) -> str:
    package, _, file = name.partition("/")
    return files(package).joinpath(file).read_text(encoding="utf-8")
