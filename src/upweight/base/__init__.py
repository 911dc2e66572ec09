"""What every layer stands on: errors, files, locks, progress, text."""
