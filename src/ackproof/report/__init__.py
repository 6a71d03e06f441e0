"""A run directory in, one HTML page out; the same verdict for the terminal, for scripts and for CI."""
