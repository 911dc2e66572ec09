"""Doing a study: plan, take, train, evaluate, store."""
