"""Settings for the whole suite."""

import os
import tempfile

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Most of what engine tests take is compiling; XLA's optimiser multiplies that, and is not what they test.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ["UPWEIGHT_CACHE"] = tempfile.mkdtemp(prefix="upweight-test-cache-")
