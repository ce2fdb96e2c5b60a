"""Alparslan, Yildirim and Birbil's samplers of a regression on several holders' tables, corrected; see README.md."""
