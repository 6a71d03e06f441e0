"""Checks of what was acknowledged and what the log holds."""
