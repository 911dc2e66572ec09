"""The commands that train, play or report: each parses its arguments, calls one function and prints."""
