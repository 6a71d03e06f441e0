"""Checks of a mirror, and of clients that move between two sites."""
