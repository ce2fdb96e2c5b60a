"""The file `dpbayes.yaml` of a project folder says where its home, studies and servers are; every key is optional."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator

from dpbayes.project.place import NAME
from dpbayes.strict_yaml.fields import Says, Section, Text, refusal
from dpbayes.strict_yaml.messages import problems_of
from dpbayes.strict_yaml.problem import Problem
from dpbayes.strict_yaml.yaml12 import parse
from dpbayes.study.load import decoded, read_whole
from dpbayes.study.schedule import cron_problem
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import shown

CATCH_UP = "*/15 * * * *"
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"


def _glob(pattern: str) -> str:
    path = PurePosixPath(pattern)
    if path.is_absolute() or ".." in path.parts:
        raise refusal(f"{shown(pattern)} leaves the project folder", "Write it from there, such as north/*/study.yaml")
    return pattern


def _cron(expression: str) -> str:
    if problem := cron_problem(expression):
        raise refusal(problem, f'Write, for instance, "{CATCH_UP}": every 15 minutes')
    return expression


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable:
        raise refusal(f"{shown(url)} is no address of a scheduler", "Write tls://host:8786, with scheme and port")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


Globs = Annotated[tuple[Annotated[Text, AfterValidator(_glob)], ...], Field(min_length=1), Says("list of patterns")]
Hosts = Annotated[tuple[Text, ...], Says("list of hosts")]


class DaskSettings(Section):
    """Where chains run: without it on the machine of the run."""

    address: Annotated[Text, AfterValidator(_address)] | None = Field(
        default=None,
        description="Address of a scheduler, as in DPBAYES_DASK.",
        examples=["tls://dask.example:8786"],
    )
    ca: Text | None = Field(default=None, description="Certificate of the cluster's authority.", examples=["ca.pem"])
    cert: Text | None = Field(default=None, description="Certificate of dpbayes.", examples=["client.pem"])
    key: Text | None = Field(default=None, description="File with the key of that certificate.", examples=["key.pem"])
    allow_plain: Hosts = Field(
        default=(),
        description="Hosts other than this machine to which tcp:// is allowed: it is neither encrypted nor asks who "
        "gives orders.",
        examples=["[dask]"],
    )

    @model_validator(mode="after")
    def _plain_only_where_allowed(self) -> Self:
        parts = urlsplit(self.address or "")
        host = parts.hostname or ""
        if parts.scheme == "tcp" and not _is_loopback(host) and host not in self.allow_plain:
            what = f"tcp:// to {shown(host)} is not encrypted, and obeys everybody who reaches it"
            raise refusal(what, f"Use tls://, or write allow_plain: [{shown(host)}]", "address")
        return self

    def environment(self, folder: Path) -> dict[str, str]:
        """The settings as variables; files are named from a folder."""
        files = {"CA_FILE": self.ca, "CLIENT__CERT": self.cert, "CLIENT__KEY": self.key}
        found = {_TLS + name: str(_place(folder, path)) for name, path in files.items() if path is not None}
        if self.address is not None:
            found["DPBAYES_DASK"] = self.address
            if self.address.startswith("tls:"):
                found["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "true"
        if self.allow_plain:
            found["DPBAYES_DASK_ALLOW_PLAIN"] = ",".join(self.allow_plain)
        return found


class PrefectSettings(Section):
    """What `dpbayes deploy` makes on a Prefect server."""

    pool: Text = Field(default="dpbayes", description="Work pool of the project's runs.", examples=["dpbayes"])
    catch_up: Annotated[Text, AfterValidator(_cron)] = Field(
        default=CATCH_UP,
        description="When everything due that was missed is looked for, in UTC.",
        examples=[f'"{CATCH_UP}"'],
    )


class Settings(Section):
    """The whole file."""

    home: Text | None = Field(
        default=None,
        description="Home of all studies, from the project folder, as in DPBAYES_HOME.",
        examples=["../home"],
    )
    studies: Globs = Field(
        default=("**/study.yaml",),
        description="Which files below the project folder are studies; hidden folders are left out.",
        examples=["[wages/*.yaml]"],
    )
    dask: DaskSettings = Field(default=DaskSettings(), description="Where chains run.")
    prefect: PrefectSettings = Field(default=PrefectSettings(), description="Deployments on a Prefect server.")

    def environment(self, folder: Path) -> dict[str, str]:
        """The settings that every run needs, as variables of its environment; places are named from a folder."""
        home = {} if self.home is None else {"DPBAYES_HOME": str(_place(folder, self.home))}
        return home | self.dask.environment(folder)


def load_settings(folder: Path) -> Settings:
    """The settings of a project folder; where it has no `dpbayes.yaml`, the defaults."""
    path = folder / NAME
    if not path.exists():
        return Settings()
    try:
        return _checked(decoded(read_whole(path, "settings")))
    except Problem as problem:
        sentence = str(problem)
    raise StudyInvalid(f"cannot read {NAME} in {folder}: {sentence}")


def _checked(text: str) -> Settings:
    document = parse(text, if_empty="Write home: and a folder into it, for instance, or delete it")
    if not isinstance(document.value, Mapping):
        raise Problem((), "it is not a list of keys and values", "Start with home: and a folder, for instance", 1)
    try:
        return Settings.model_validate(document.value)
    except ValidationError as error:
        found = list(problems_of(error))
    lines = ((document.line(problem.place) or 1, problem) for problem in found)
    line, first = min(lines, key=lambda pair: pair[0])
    raise Problem(first.place, first.what, first.remedy, line)


def _place(folder: Path, path: str) -> Path:
    return (folder / Path(path).expanduser()).absolute()
