"""Checks of consumer groups: ownership, commits, rebalances."""
