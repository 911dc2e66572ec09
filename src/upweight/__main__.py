"""``python -m upweight``."""

from upweight.cli.main import start

start()
