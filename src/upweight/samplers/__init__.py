"""From episode weights to step indices. NumPy only; a weighting is never imported here."""
