"""Shares of a column's levels: noisy counts, and draws of the shares given them."""
