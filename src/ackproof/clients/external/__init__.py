"""Clients that are any command: the process that starts one, and what its lines mean."""
