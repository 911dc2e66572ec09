"""How datasets are made: behaviour policies, the program that trained them, and recipes that turn them into datasets."""
