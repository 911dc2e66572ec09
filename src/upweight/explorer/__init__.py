"""A page to see what weighting does to a dataset: self-contained, or served to this machine alone."""
