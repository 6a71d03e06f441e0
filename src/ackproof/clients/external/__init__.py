"""Clients that are any command: the process that starts the command, and the meaning of the lines it prints."""
