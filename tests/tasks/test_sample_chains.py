"""Chains on a real cluster whose workers die, and in a process that dies: the same draws, bit for bit."""

import os
import shutil
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from distributed import Client, LocalCluster

from dpbayes.analyses.prepare import prepare_analysis
from dpbayes.analyses.workspace import Workspace
from dpbayes.study.load import load_study
from dpbayes_core.samplers.driver import sample
from dpbayes_core.sampling.posterior import Posterior
from storage.ledger.anchored import AnchoredLedger
from tasks import chain_progress, progress
from tasks.archive_posterior import find_posterior
from tasks.orders import AnalysisOrder, ReleaseOrder
from tasks.release_statistics import release_once
from tasks.sample_chains import sample_chains
from tests.support.desk import PERIOD, Desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    from dpbayes_core.privacy.noise import OpenDPNoise

    desk = Desk.set_up(tmp_path_factory.mktemp("desk"))
    desk.edit_study("draws: 500", "draws: 3000")
    release_once(ReleaseOrder(study=str(desk.study), release="pay-regression", period=PERIOD), OpenDPNoise())
    return desk


@pytest.fixture(scope="module")
def undisturbed(desk: Desk) -> Posterior:
    study = load_study(desk.study)
    with AnchoredLedger.open(study.path) as anchored:
        analysis = prepare_analysis(study, "pay-posterior", PERIOD, anchored)
    request = analysis.request
    return sample(
        analysis.evidence, analysis.prior, chains=request.chains, draws=request.draws, seed=request.seed, block=1000
    )


@pytest.fixture
def heard(desk: Desk) -> Iterator[list[float]]:
    """Nothing is checkpointed yet; what the test listens to is silenced afterwards, whatever happens."""
    for folder in (desk.home / "work").iterdir():
        shutil.rmtree(folder)
    yield []
    progress.silence()


def prepared(desk: Desk) -> Workspace:
    order = AnalysisOrder(study=str(desk.study), analysis="pay-posterior", period=PERIOD)
    return find_posterior.fn(order)[0]


def assert_same(one: Posterior, other: Posterior) -> None:
    assert one.draws.keys() == other.draws.keys()
    for name, draws in one.draws.items():
        np.testing.assert_array_equal(draws, other.draws[name])


@pytest.mark.slow
def test_a_worker_killed_between_blocks_changes_no_draw(
    desk: Desk, undisturbed: Posterior, heard: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        monkeypatch.setenv("DPBAYES_DASK", cluster.scheduler_address)
        with Client(cluster) as client:
            pids = list(client.run(os.getpid).values())

        def kill_one(step: str, share: float) -> None:
            heard.append(share)
            if len(heard) == 3:
                os.kill(pids[0], signal.SIGKILL)

        progress.listen(kill_one)
        posterior, _ = sample_chains.fn(prepared(desk))
    assert len(heard) > 2
    assert_same(posterior, undisturbed)


class Interrupted(Exception):
    """The process that drives the chains is gone."""


@pytest.mark.slow
def test_an_interrupted_analysis_goes_on_from_its_checkpoints(
    desk: Desk, undisturbed: Posterior, heard: list[float]
) -> None:
    def interrupt(step: str, share: float) -> None:
        heard.append(share)
        if len(heard) == 4:
            raise Interrupted

    progress.listen(interrupt)
    with pytest.raises(Interrupted):
        sample_chains.fn(prepared(desk))
    reached = heard[-1]
    heard.clear()
    progress.listen(lambda step, share: heard.append(share))
    posterior, _ = sample_chains.fn(prepared(desk))
    assert min(share for share in heard if share > 0) > reached / 2  # it did not begin again
    assert_same(posterior, undisturbed)


@pytest.mark.slow
def test_progress_says_draws_diagnostics_and_the_time_left(
    desk: Desk, heard: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_progress, "JUDGING", 1.0)  # diagnose after every block, which costs too much otherwise
    found: list[progress.ChainsSoFar] = []
    progress.listen(lambda step, share: heard.append(share), found.append)
    posterior, _ = sample_chains.fn(prepared(desk))
    assert heard == sorted(heard)
    assert [one.draws for one in found] == sorted(one.draws for one in found)
    assert (found[0].ess, found[0].rhat) == (None, None)  # it was still warming up
    last = found[-1]
    assert last.draws == last.of == next(iter(posterior.draws.values())).shape[1]
    assert last.ess == posterior.least_ess
    assert last.rhat == max(posterior.diagnosis.rhat)
    assert last.seconds_left == 0
    assert str(last) == f"3,000 of 3,000 draws, ESS {last.ess:,.0f}, R-hat {last.rhat:.3f}, about 0 s left"


@pytest.mark.slow
def test_the_time_left_includes_the_rounds_that_are_to_be_expected(desk: Desk, heard: list[float]) -> None:
    found: list[progress.ChainsSoFar] = []
    progress.listen(lambda step, share: heard.append(share), found.append)
    text = desk.study.read_text()
    desk.edit_study("draws: 3000", "draws: 100")
    try:
        posterior, _ = sample_chains.fn(prepared(desk))
    finally:
        desk.study.write_text(text)
    rounds = {one.of: one for one in found}  # the last report of each
    assert list(rounds) == [100 * 2**number for number in range(len(rounds))]
    assert len(rounds) > 1
    assert rounds[100].seconds_left is not None
    assert rounds[100].seconds_left > 0
    assert found[-1].draws == next(iter(posterior.draws.values())).shape[1]
