"""Results as statistics, tables, figures and a page.

One walk: stores -> results -> statistics -> tables and figures -> page. Read in this order:

- ``names.py``: what weightings, algorithms and datasets are called, and their order
- ``results.py``: from stores to one row per run (``collect``), and the questions that can be asked of them (``Results``)
- ``statistics/``: scores of many runs in one number, with an interval; knows nothing of the rest
- ``gains.py``: what a weighting gains on each dataset, next to facts of the dataset
- ``table.py``: a table and its forms (CSV, LaTeX, Markdown, HTML); ``tables.py``: the tables of a report
- ``figures/``: the figures of a report, as SVG
- ``verdict.py``: what came out, in one sentence
- ``page.py`` and ``page.html``: all of it as one page, and as files in a folder
- ``replicate.py``: the paper's claims, checked
"""
