"""Speed, each number as a ratio to a peer. A package, because old releases of PyArrow install one of the same name."""
