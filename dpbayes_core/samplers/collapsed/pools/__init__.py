"""The density of a pool whose parts' covariates differ, and the coordinates that its chains move in."""
