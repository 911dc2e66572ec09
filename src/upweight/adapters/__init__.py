"""Other people's training loops, drawing by our weights. One library per file; nothing here is imported by the rest."""
