"""Reading and writing datasets: one format per file, recognised by content."""
