"""Studies: experiment files become runs, runs become results in a store, once each."""
