"""Other libraries, each with the draws to time and, where it trains, its own behaviour cloning."""
