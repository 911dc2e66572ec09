"""Doing a study: plan, claim, train, evaluate, store."""
