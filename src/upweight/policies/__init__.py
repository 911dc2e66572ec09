"""A trained policy as a file and as a function. NumPy only; what the engine writes and evaluation runs."""
