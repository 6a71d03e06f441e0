"""Checks of which broker leads a partition."""
