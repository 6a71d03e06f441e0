"""Faults: each breaks something, proves that it is broken, and mends it."""
