"""One algorithm per file, found by being here."""
