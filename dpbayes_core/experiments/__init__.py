"""Experiments that `dpbayes evaluate` runs: synthetic data only, no ledger, no table."""
