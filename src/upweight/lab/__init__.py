"""The lab: what needs JAX or a simulator. Datasets by name, training, evaluation, studies, reports, choosing.

It is built on the library (``upweight``'s other folders), which imports nothing of it.
"""
