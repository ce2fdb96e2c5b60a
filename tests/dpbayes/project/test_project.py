"""A folder of studies, with what its `dpbayes.yaml` says and without one."""

import shutil
from pathlib import Path

import pytest

from dpbayes.project.place import project_above
from dpbayes.project.project import load_project
from dpbayes.project.settings import Settings
from dpbayes_core.errors import StudyInvalid
from tests.support.desk import STUDY


def write_study(folder: Path, name: str, *, population: str = "staff", file: str = "study.yaml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = STUDY.replace("study: pay", f"study: {name}").replace("population: staff", f"population: {population}")
    (folder / file).write_text(text)
    return folder / file


def test_a_folder_of_studies_needs_no_file_of_its_own(tmp_path: Path) -> None:
    write_study(tmp_path / "b", "beta")
    write_study(tmp_path / "deep" / "er", "alpha")
    write_study(tmp_path / ".hidden", "gamma")
    project = load_project(tmp_path)
    assert [study.study for study in project.studies] == ["alpha", "beta"]
    assert project.studies[0].path == tmp_path.resolve() / "deep" / "er" / "study.yaml"
    assert (project.settings, project.broken, project.environment({})) == (Settings(), (), {})


def test_a_broken_study_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    write_study(tmp_path / "a", "alpha")
    wrong = write_study(tmp_path / "b", "beta")
    wrong.write_text(wrong.read_text().replace("epsilon: 1\n", "epsilon: -1\n"))
    project = load_project(tmp_path)
    assert [study.study for study in project.studies] == ["alpha"]
    ((path, sentence),) = project.broken
    assert path == wrong.resolve()
    assert "releases.pay-regression.epsilon: -1 is not above 0" in sentence


def test_two_studies_of_one_name_are_refused_both(tmp_path: Path) -> None:
    first, second = (write_study(tmp_path / folder, "alpha") for folder in ("a", "b"))
    project = load_project(tmp_path)
    assert project.studies == ()
    assert [path for path, _ in project.broken] == [first.resolve(), second.resolve()]
    assert project.broken[0].sentence == f"cannot use study alpha: {second} has the same name. Rename one of them."


def test_a_linked_study_is_one_and_the_copy_in_a_crate_is_none(tmp_path: Path) -> None:
    study = write_study(tmp_path / "a", "alpha")
    (tmp_path / "z").symlink_to(tmp_path / "a")
    crate = tmp_path / "home" / "archive" / "releases" / "alpha"
    crate.mkdir(parents=True)
    shutil.copy(study, crate)
    (crate / "MANIFEST.json").write_text("{}")
    project = load_project(tmp_path)
    assert [each.path for each in project.studies] == [study.resolve()]
    assert project.broken == ()


SETTINGS = """\
home: ../home
studies: [north/*.yaml, south/*.yaml]
dask: {address: "tls://dask.example:8786", ca: certs/ca.pem, cert: certs/me.pem, key: certs/me.key}
prefect: {pool: agency, catch_up: "0 * * * *"}
"""


def test_the_file_names_home_studies_and_servers_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "dpbayes.yaml").write_text(SETTINGS)
    north = write_study(tmp_path / "north", "alpha", file="wages.yaml")
    write_study(tmp_path / "elsewhere", "beta")
    project = load_project(tmp_path)
    assert [study.path for study in project.studies] == [north.resolve()]
    assert (project.settings.prefect.pool, project.settings.prefect.catch_up) == ("agency", "0 * * * *")
    folder, tls = tmp_path.resolve(), "DASK_DISTRIBUTED__COMM__TLS__"
    assert project.environment({"DPBAYES_DASK": "tls://other:1", "DPBAYES_ACTOR": "ann", "DPBAYES_HOME": ""}) == {
        "DPBAYES_HOME": str(folder / ".." / "home"),
        "DPBAYES_DASK": "tls://other:1",
        f"{tls}CA_FILE": str(folder / "certs" / "ca.pem"),
        f"{tls}CLIENT__CERT": str(folder / "certs" / "me.pem"),
        f"{tls}CLIENT__KEY": str(folder / "certs" / "me.key"),
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
    }
    assert project_above(north) == folder
    assert project_above(tmp_path.parent) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hom: x", "line 1, hom: there is no such key here. Did you mean home?"),
        ("studies: [../*.yaml]", "studies: ../*.yaml leaves the project folder. Write it from there"),
        ("prefect:\n  catch_up: every hour", "line 2, prefect.catch_up: cron has 5 fields"),
        ("dask: {address: dask:8786}", "dask.address: dask:8786 is no address of a scheduler. Write tls://host:8786"),
        ("dask: {address: 'tls://me:word@dask:8786'}", "is no address of a scheduler"),
        ("dask: {address: 'tcp://dask:8786'}", "tcp:// to dask is not encrypted, and obeys everybody who reaches it"),
        ("[home]", "line 1: it is not a list of keys and values. Start with home:"),
        ("", "the file is empty. Write home:"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "dpbayes.yaml").write_text(text)
    with pytest.raises(StudyInvalid) as refused:
        load_project(tmp_path)
    assert str(refused.value).startswith(f"cannot read dpbayes.yaml in {tmp_path}: ")
    assert words in str(refused.value)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786"])
def test_plain_tcp_is_for_this_machine_and_the_hosts_that_are_named(tmp_path: Path, address: str) -> None:
    for text in (f"dask: {{address: '{address}'}}", "dask: {address: 'tcp://dask:8786', allow_plain: [dask]}"):
        (tmp_path / "dpbayes.yaml").write_text(text)
        assert load_project(tmp_path).settings.dask.address in text


def test_the_hosts_that_are_named_are_a_variable(tmp_path: Path) -> None:
    (tmp_path / "dpbayes.yaml").write_text("dask: {allow_plain: [dask, 192.0.2.1]}")
    project = load_project(tmp_path)
    assert project.environment({}) == {"DPBAYES_DASK_ALLOW_PLAIN": "dask,192.0.2.1"}
    assert project.environment({"DPBAYES_DASK_ALLOW_PLAIN": "x"}) == {"DPBAYES_DASK_ALLOW_PLAIN": "x"}


@pytest.mark.parametrize(("name", "words"), [("nowhere", "there is no such folder"), ("file", "it is a file")])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StudyInvalid, match=words):
        load_project(tmp_path / name)
