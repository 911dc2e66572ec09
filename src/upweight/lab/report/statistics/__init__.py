"""Scores of many runs in few numbers, and how sure they are.

Read ``scores.py`` (the one form that scores have), ``aggregate.py`` (IQM, probability of improvement, profiles),
``ranks.py`` (an exact test, rank correlation), ``bootstrap.py`` (intervals with a generator) and ``intervals.py`` (the
intervals of a report: a seed, no warnings).
"""
