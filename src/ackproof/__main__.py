"""`python -m ackproof`: the command line."""

from ackproof.cli import main

main()
