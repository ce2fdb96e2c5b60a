"""Where the project of a study is: looked for by every command that names a study."""

import os
from pathlib import Path

NAME = "dpbayes.yaml"


def project_above(start: Path) -> Path | None:
    """The nearest folder with a `dpbayes.yaml`, upward from a study file or folder."""
    begin = Path(os.path.realpath(start.expanduser()))
    return next((place for place in (begin, *begin.parents) if os.path.isfile(place / NAME)), None)
