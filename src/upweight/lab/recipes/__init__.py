"""Datasets by name: tasks, shipped policies, recipes, cached collection."""
