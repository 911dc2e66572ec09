"""Policies in environments: playing episodes, in parallel and reproducibly, to evaluate or to collect."""
