"""What the commands `run`, `judge` and `report` do, for Python: it prints nothing and raises `Problem`.

The public names are in `ackproof.__all__`, and docs/api.md describes them.
"""
