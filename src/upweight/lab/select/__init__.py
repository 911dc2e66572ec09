"""Choosing among trained policies with logged data only: looks, estimates, a rule that may abstain, and a bandit."""
