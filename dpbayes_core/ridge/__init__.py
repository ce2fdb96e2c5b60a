"""Wang's AdaSSP (2018): noisy moments and a noisy least eigenvalue, and the ridge estimate that they give."""
