"""Checks of who leads a partition."""
