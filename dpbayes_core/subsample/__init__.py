"""Posterior probabilities and quantiles of regressions without usable bounds, by subsampling and aggregating."""
