"""The figures of a report, as SVG.

Read ``drawing.py`` (how every figure looks), ``weightings.py``, ``points.py``, ``settings.py`` and ``datasets.py`` (what each
figure draws, or why it cannot) and ``figures.py`` (all of them, in the order of a report).
"""
