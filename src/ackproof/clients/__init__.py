"""Clients of the cluster, each its own process with its own journal: producers, consumers, observer, final read.

Each is started as `python -m ackproof.clients.NAME CONFIG.json` where it shall stand, and imports nothing of the lab.
"""
