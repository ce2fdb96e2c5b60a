"""The experiments by name."""

from collections.abc import Mapping

from dpbayes_core.experiments.cirrhosis import EXPERIMENT as CIRRHOSIS
from dpbayes_core.experiments.coverage import EXPERIMENT as COVERAGE
from dpbayes_core.experiments.distributed import EXPERIMENT as DISTRIBUTED
from dpbayes_core.experiments.interface import Experiment
from dpbayes_core.experiments.networks import EXPERIMENT as NETWORKS
from dpbayes_core.experiments.pools import EXPERIMENT as POOLS
from dpbayes_core.experiments.subsample import EXPERIMENT as SUBSAMPLE

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment for experiment in (SUBSAMPLE, NETWORKS, COVERAGE, POOLS, CIRRHOSIS, DISTRIBUTED)
}
