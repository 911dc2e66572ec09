"""What the scores of many runs say: aggregates and their uncertainty."""
