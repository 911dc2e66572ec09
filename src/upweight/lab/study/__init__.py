"""Studies: from an experiment file to runs, and the store of their results."""
