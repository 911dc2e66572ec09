"""``python -m upweight``."""

import sys

from upweight.cli.main import main

sys.exit(main())
