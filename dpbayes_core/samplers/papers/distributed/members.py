"""Every sampler of the folder, with what a reader of its result must know."""

from dpbayes_core.samplers.papers.distributed.family import MomentsSampler, PlugInSampler, WholeSampler
from dpbayes_core.samplers.papers.distributed.told import FIXED, SOLVE, WALK

_EXACT = "posterior given the noisy statistics for normal covariates, y'y normal given their moments"
_UNCERTIFIED = "Its intervals are not calibrated. "

NORMAL_X = MomentsSampler(
    name="normal-x",
    proposal=WALK,
    target=_EXACT,
    cost="O(J d^3) an iteration",
    caveat=_UNCERTIFIED + "A random walk over the moments rarely converges from five covariates on, and the "
    "coefficients can look converged while it has not: believe it only where the latent statistic passes, too.",
)
NORMAL_X_SOLVE = MomentsSampler(
    name="normal-x-solve",
    proposal=SOLVE,
    target=_EXACT,
    cost="O(J d^6) an iteration",
    caveat=_UNCERTIFIED + "Moments are drawn given the covariates' law and that law given them: where noise dominates "
    "the two hardly move each other, as in every Gibbs sampler of this model.",
)
FIXED_S = MomentsSampler(
    name="fixed-s",
    proposal=FIXED,
    levels=True,
    target="posterior of the parameters as if the noisy moments of the covariates, repaired, were exact",
    cost="O(J d^3) an iteration",
    caveat=_UNCERTIFIED + "It takes the noisy moments of the covariates for exact: standard deviations were 1.5 "
    "to 3 times too small at five covariates. A fast point estimate.",
)
FIXED_S_FAST = PlugInSampler(
    name="fixed-s-fast",
    levels=True,
    target="coefficients given the noisy X'y, as if the noisy moments of the covariates and the residual were exact",
    cost="O(J d^3) a draw",
    caveat=_UNCERTIFIED + "It takes the noisy moments of the covariates and the noisy residual for exact: standard "
    "deviations were 1.5 to 3 times too small at five covariates. A fast point estimate.",
)
BS_DISTRIBUTED = WholeSampler(
    name="bs-distributed",
    target="stationary law of normal moments given the parameters and conjugate parameters given their repaired sum",
    cost="O(J d^6) an iteration",
    caveat=_UNCERTIFIED + "Its two steps are conditionals of no joint law, and it hardly mixes where noise dominates: "
    "believe it only where the latent statistic passes, too.",
)

DISTRIBUTED_SAMPLERS = (NORMAL_X, NORMAL_X_SOLVE, FIXED_S, FIXED_S_FAST, BS_DISTRIBUTED)
