"""Episode weights: one strategy per file, found by being there."""
