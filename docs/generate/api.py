"""Writes docs/api.md from the code: `python -m docs.generate.api > docs/api.md`."""

import inspect
from typing import Any

import dpbayes_core

TITLE = """\
# The Python surface of dpbayes_core

Generated from the code. `dpbayes_core` imports without Prefect, Dask and pandas.
[methods.md](methods.md) says what the samplers target.

From synthetic rows to a posterior. Real rows go through `dpbayes release`, which charges a budget and uses OpenDP's
noise:

```python
import numpy as np
from dpbayes_core import Bounds, Continuous, Factor, IndependentPrior, RegressionSchema, Release, SeededNoise
from dpbayes_core import regression_statistics, sample
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.regression.moments import grid_for, on_grid

random = np.random.default_rng(1)
age, female = random.uniform(16, 80, 20_000), random.integers(0, 2, 20_000)
wage = 1.5 + 0.02 * age - 0.3 * female + random.normal(0, 0.4, 20_000)

schema = RegressionSchema(
    response=Continuous("wage", Bounds(0, 5)),
    covariates=(Continuous("age", Bounds(16, 80)), Factor("female", ("no", "yes"))),
)
exact = regression_statistics(schema, {"wage": wage, "age": age, "female": female})
mechanism = gaussian_for(regression_sensitivity(schema), epsilon=1, delta=1e-6, grid=grid_for(20_000))
noisy = mechanism.release(SeededNoise(2, i_know_this_is_not_private=True), on_grid(exact, mechanism.grid))
release = Release(
    schema=schema, neighbours="replace-one", rows=exact.rows, mechanism=mechanism, values=tuple(noisy.tolist())
)

posterior = sample(release, IndependentPrior(), chains=4, draws=1000, seed=3)
assert posterior.converged
for line in posterior.summary():
    print(line.name, round(line.mean, 3), "+-", round(line.sd, 3))
```
"""


def api_reference() -> str:
    """One section a public name: its signature, its first sentence, its public methods."""
    sections = [_section(name, getattr(dpbayes_core, name)) for name in dpbayes_core.__all__]
    return TITLE + "\n" + "\n".join(sections)


def _section(name: str, what: Any) -> str:
    if inspect.ismodule(what):
        members = [(key, value) for key, value in vars(what).items() if _own(key, value, what)]
        aside = "" if what.__name__ == f"dpbayes_core.{name}" else f" Also `from dpbayes_core import {name}`."
        return _lines(what.__name__, _sentence(what) + aside, [_member(key, value) for key, value in members])
    if inspect.isclass(what):
        members = [(key, value) for key, value in vars(what).items() if not key.startswith("_") and _described(value)]
        title = f"{name}{_signature(what)}" if not getattr(what, "_is_protocol", False) else name
        return _lines(title, _sentence(what), [_member(key, value) for key, value in members])
    if callable(what):
        return _lines(f"{name}{_signature(what)}", _sentence(what), [])
    kinds = ", ".join(f"`{key}`" for key in what)
    return _lines(name, f"By name: {kinds}.", [])


def _lines(title: str, sentence: str, members: list[str]) -> str:
    return "\n".join([f"## `{title}`", "", sentence, *([""] if members else []), *members, ""])


def _member(name: str, value: Any) -> str:
    inner = value.fget if isinstance(value, property) else getattr(value, "func", getattr(value, "__func__", value))
    shown = name if isinstance(value, property) or hasattr(value, "func") else f"{name}{_signature(inner)}"
    return f"- `{shown}`: {_sentence(inner)}"


def _described(value: Any) -> bool:
    return isinstance(value, property | classmethod) or hasattr(value, "func") or inspect.isfunction(value)


def _own(name: str, value: Any, module: Any) -> bool:
    made = inspect.unwrap(value) if callable(value) else value  # a remembered function is one, too
    here = getattr(made, "__module__", None) == module.__name__
    public = (inspect.isfunction(made) or inspect.isclass(made)) and not name.startswith("_")
    return public and (here or name in getattr(module, "__all__", ()))


def _signature(what: Any) -> str:
    signature = inspect.signature(what)
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        names.append(parameter.name + ("" if parameter.default is parameter.empty else "=…"))
    return f"({', '.join(names)})"


def _sentence(what: Any) -> str:
    return (inspect.getdoc(what) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    print(api_reference(), end="")
