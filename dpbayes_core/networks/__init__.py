"""Private Bayesian networks of columns with public levels: tables, signed sums, posterior draws, MAP."""
