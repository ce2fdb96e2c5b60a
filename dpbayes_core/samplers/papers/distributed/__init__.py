"""Alparslan, Yildirim and Birbil's samplers of a regression held in parts, corrected; see README.md."""
