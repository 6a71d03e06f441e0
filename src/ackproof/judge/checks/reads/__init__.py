"""Checks of what consumers were given."""
