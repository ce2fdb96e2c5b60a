"""The samplers of Bernstein and Sheldon (2019) as entries of `SAMPLERS`."""

from dpbayes_core.samplers.papers.gibbs.moments import GibbsNoisy, GibbsPrior
from dpbayes_core.samplers.papers.gibbs.normal import GibbsExact, GibbsUpdate

GIBBS_SAMPLERS = (GibbsNoisy(), GibbsPrior(), GibbsUpdate(), GibbsExact())
