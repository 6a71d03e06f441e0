"""Checks of a mirror and of two sites."""
