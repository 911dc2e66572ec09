"""Look at a dataset: what is in it, what weighting would gain, which weighting to take."""
