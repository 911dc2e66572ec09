"""Trajectory datasets and what can be measured on them. NumPy only."""
