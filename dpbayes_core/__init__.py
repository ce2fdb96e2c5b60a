"""Mathematics of differentially private Bayesian analyses: no clock, disk, environment or network."""
