"""Posteriors of a network's conditional probabilities given noisy tables."""
