"""Checks of the records that consumers were given."""
