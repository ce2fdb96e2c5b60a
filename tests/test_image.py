"""deploy/: the image has the product alone, its user is not root, and no file there contains a secret."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from tests.support.command import ROOT, clean_environment
from tests.support.image import (
    DEPLOY,
    DOCKERFILE,
    SCRIPTS,
    UNCHECKED,
    Image,
    entries,
    instructions,
    linter,
    made_secrets,
    read,
    stages,
)
from tests.support.others import SWITCH, open_folder, require_another_user
from tests.test_installation import TESTING
from tools.lock import entries as locked
from tools.product_lock import product_lock

CHARTS = ("prefect-server", "prefect-worker", "dask")
IMAGE = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)?:[\w.-]+")  # no host of a registry, and never the newest, whatever it is
SECRET = re.compile(r"PASSWORD|PGPASS|SECRET|AUTH|TOKEN|KEY|CREDENTIALS")
LOOKS_SECRET = re.compile(r"://[^/@\s]*:[^/@\s]*@|-----BEGIN|\b[0-9a-f]{32,}\b")


def test_the_lock_of_the_image_is_what_the_product_needs_of_the_lock() -> None:
    stored = (DEPLOY / "requirements.lock").read_text()
    assert stored == product_lock(ROOT), "run: python -m tools.product_lock > deploy/requirements.lock"
    ours, all_of_it = locked(stored), locked((ROOT / "requirements.lock").read_text())
    assert ours.items() <= all_of_it.items()
    assert ours.keys() & {canonicalize_name(name) for name in TESTING} == {"jsonschema"}  # great-expectations needs it
    assert {"prefect", "s3fs", "psycopg-binary", "asyncpg"} <= ours.keys()


def test_the_dockerfile_installs_by_hash_and_runs_as_a_user_without_rights() -> None:
    build, image = stages()
    (base,) = [rest for word, rest in instructions(DOCKERFILE.read_text()) if word == "ARG"]
    assert IMAGE.fullmatch(base.removeprefix("BASE="))
    assert [stage[0][1].split()[0] for stage in (build, image)] == ["${BASE}", "${BASE}"]
    assert not {word for stage in (build, image) for word, _ in stage} & {"ADD", "SHELL", "VOLUME"}
    words = dict(image)
    user, group = words["USER"].split(":")
    assert int(user) > 999
    assert int(group) > 999
    last = [word for word, _ in image]
    assert not {"RUN", "COPY"} & set(last[last.index("USER") :])
    assert {"HEALTHCHECK", "ENTRYPOINT", "CMD"} <= words.keys()
    installs = [rest for word, rest in build if word == "RUN"]
    assert all("--no-deps" in rest and ("--require-hashes" in rest or "--no-index" in rest) for rest in installs)
    assert [name for name in re.findall(r"(\w+)=", words["ENV"]) if SECRET.search(name)] == []


def test_the_build_gets_what_it_copies_and_nothing_else_of_the_checkout() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    first, *rules = [line for line in lines if not line.startswith("#")]
    assert first == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    copies = [rest.split() for stage in stages() for word, rest in stage if word == "COPY"]
    sources = {each for *words, _ in copies if "--from=build" not in words for each in words if each[:2] != "--"}
    assert sources == allowed
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {each.rstrip("*") for each in stated} <= sources
    assert all((ROOT / source).exists() for source in sources)


def test_the_dockerfile_passes_its_linter() -> None:
    done = subprocess.run([*linter("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_compose_reads_the_compose_file(tmp_path: Path) -> None:
    command = linter("docker compose", "docker-compose", "podman-compose", ask="version")
    made_secrets(tmp_path / "secrets")
    shutil.copy(DEPLOY / "compose.yaml", tmp_path)
    done = subprocess.run([*command, "-f", "compose.yaml", "config"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_containers_reach_each_other_and_nobody_else() -> None:
    compose = read("compose.yaml")
    assert compose["networks"] == {"inside": {"internal": True}}
    services = compose["services"]
    for name, service in services.items():
        assert service["networks"] == ["inside"], name
        assert not {"ports", "network_mode", "privileged", "env_file"} & service.keys(), name
        assert IMAGE.fullmatch(service["image"]), name
    ours = [service for service in services.values() if "build" in service]
    assert len(ours) == 4
    assert all(each["read_only"] and each["cap_drop"] == ["ALL"] for each in ours)
    assert {each["image"] for each in ours} == {f"dpbayes:{version()}"}


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_every_secret_is_a_file_that_make_secrets_makes(tmp_path: Path) -> None:
    folder = made_secrets(tmp_path / "secrets")
    compose = read("compose.yaml")
    files = {each["file"] for each in compose["secrets"].values()}
    assert {f"secrets/{path.name}" for path in folder.iterdir()} >= files
    for name, service in compose["services"].items():
        mounted = {f"/run/secrets/{each}" for each in service.get("secrets", ())}
        named = set(re.findall(r"/run/secrets/[\w-]+", json.dumps(service)))
        assert named == mounted, name
    given = [
        (path.rpartition("/")[2], value) for path, value in entries(compose["services"]) if "/environment/" in path
    ]
    secret = [value for name, value in given if SECRET.search(name)]
    assert len(secret) > 10
    assert all(value.startswith("/run/secrets/") for value in secret)


def test_make_secrets_keeps_what_exists_and_opens_it_to_nobody(tmp_path: Path) -> None:
    folder = made_secrets(tmp_path / "secrets")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in made_secrets(folder).iterdir()} == before
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "pgpass").stat().st_mode & 0o777 == 0o600  # or PostgreSQL ignores it
    assert (
        json.loads(before["store.json"])["identities"][0]["credentials"][0]["secretKey"] in before["store-key"].decode()
    )
    assert before["ledger-database"] != before["prefect-database"]
    assert "dask-ca.key" not in before


def test_no_file_contains_a_secret() -> None:
    ours = [path for path in DEPLOY.rglob("*") if path.is_file() and path.parent.name not in ("secrets", "studies")]
    texts = {path.name: path.read_text().replace("USER:PASSWORD@", "") for path in ours if path.suffix != ".lock"}
    assert len(texts) > 10
    assert [name for name, text in texts.items() if LOOKS_SECRET.search(text)] == []
    assert LOOKS_SECRET.search("postgresql://ledger:0123@host/ledger")


@pytest.mark.parametrize("chart", CHARTS)
def test_values_take_secrets_from_kubernetes_and_our_image(chart: str) -> None:
    values = read(f"helm/{chart}.yaml")
    text = json.dumps(values)
    assert '"dpbayes"' in text
    assert version() in text
    assert "authString" not in text
    stated = [
        each["value"]
        for name in ("env", "extraEnvVars")
        for part in values.values()
        if isinstance(part, dict)
        for each in part.get(name, ())
        if "value" in each and SECRET.search(each["name"])
    ]
    assert all(value.startswith("/run/secrets/") for value in stated)
    users = [value for path, value in entries(values) if path.endswith("runAsUser")]
    assert users
    assert set(users) == {10001}


@pytest.mark.parametrize("chart", CHARTS)
def test_values_name_keys_that_the_chart_has(chart: str) -> None:
    place = os.environ.get("DPBAYES_HELM_CHARTS")
    if place is None:
        pytest.skip(f"{UNCHECKED}set DPBAYES_HELM_CHARTS to a folder with the charts {', '.join(CHARTS)}")
    values, published = read(f"helm/{chart}.yaml"), YAML(typ="safe").load(Path(place, chart, "values.yaml"))
    assert list(unknown(values, published)) == []
    schema = Path(place, chart, "values.schema.json")
    if schema.exists():
        jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(values)


def unknown(values: dict[str, object], published: dict[str, object], path: str = "") -> Iterator[str]:
    """Keys that a chart's own values do not have; an empty mapping there takes any."""
    for key, value in values.items():
        inner = published.get(key)
        if key not in published:
            yield f"{path}/{key}"
        elif isinstance(value, dict) and isinstance(inner, dict) and inner:
            yield from unknown(value, inner, f"{path}/{key}")


def test_the_check_of_keys_can_fail() -> None:
    assert list(unknown({"server": {"replicas": 1}}, {"server": {"replicaCount": 1}})) == ["/server/replicas"]


@pytest.mark.parametrize("unit", ["dpbayes-server", "dpbayes-worker"])
def test_systemd_accepts_the_units(unit: str, tmp_path: Path) -> None:
    command = linter("systemd-analyze")
    text = (DEPLOY / "systemd" / f"{unit}.service").read_text()
    assert "\nUser=dpbayes\n" in text
    (tmp_path / f"{unit}.service").write_text(text.replace("/opt/dpbayes/bin/prefect", "/bin/true"))
    done = subprocess.run([*command, "verify", str(tmp_path / f"{unit}.service")], capture_output=True, text=True)
    ours = [
        line for line in done.stderr.splitlines() if unit in line and "dpbayes-server.service not found" not in line
    ]
    assert ours == []


def with_secrets(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    there = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([DEPLOY / "with-secrets", *command], env=there, capture_output=True, text=True, check=False)


def test_secrets_reach_the_command_from_their_files_unchanged(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('steward:it\'s $HOME `id` "x"')
    places = {"PREFECT_API_SSL_CERT_FILE": "stays", "AWS_SHARED_CREDENTIALS_FILE": "stays"}
    names = {"PREFECT_API_AUTH_STRING_FILE": str(tmp_path / "secret")}
    done = with_secrets(sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))", **names, **places)
    seen = json.loads(done.stdout)
    assert seen["PREFECT_API_AUTH_STRING"] == 'steward:it\'s $HOME `id` "x"'
    assert seen.items() >= places.items()
    assert "PREFECT_API_AUTH_STRING_FILE" not in seen


def test_a_secret_that_cannot_be_read_stops_the_container_with_a_sentence(tmp_path: Path) -> None:
    done = with_secrets("true", PREFECT_API_AUTH_STRING_FILE=str(tmp_path / "none"))
    assert done.returncode == 2
    assert f"cannot read the secret {tmp_path / 'none'} that PREFECT_API_AUTH_STRING_FILE names" in done.stderr


@pytest.mark.slow
def test_the_image_has_the_product_alone_and_another_user_can_run_it() -> None:
    """The Dockerfile's own steps, from the index that pip uses here; only the base image is another."""
    require_another_user()
    with open_folder() as folder:
        image = Image(folder)
        kept = {name: value for name, value in clean_environment().items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        image.build(kept)
        for name in SCRIPTS:
            shutil.copy(DEPLOY / name, folder)
        path = f"{image.programs}:/usr/bin:/bin"
        nobody = [*SWITCH, "env", "-i", f"PATH={path}", "HOME=/nonexistent", str(folder / "with-secrets")]

        def run(*command: str) -> str:
            done = subprocess.run([*nobody, *command], cwd="/", capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        assert "catch-up" in run("dpbayes", "--help")
        assert version() in run("dpbayes", "--version")
        assert "--with-healthcheck" in run("prefect", "worker", "start", "--help")
        assert "--protocol" in run("dask-scheduler", "--help")
        assert "--local-directory" in run("dask-worker", "--help")
        look = "from importlib.metadata import distributions as d; print(*{each.metadata['Name'] for each in d()})"
        there = {canonicalize_name(name) for name in run("python", "-c", look).split()}
        assert there - {"dpbayes"} == locked((DEPLOY / "requirements.lock").read_text()).keys() - {"setuptools"}
        everything = (
            "import asyncpg, psycopg, s3fs, flows.run, flows.catch_up, cli.deploy, flows; print(flows.__file__)"
        )
        assert str(folder) in run("python", "-c", everything)
