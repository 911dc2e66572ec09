"""Settings for the whole suite."""

import os
import tempfile

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

os.environ["UPWEIGHT_CACHE"] = tempfile.mkdtemp(prefix="upweight-test-cache-")
