"""Checks of acknowledged messages against the healed log."""
