"""Clients of the cluster: producers, consumers, observer, final read. Each is a process with its own journal files.

The run starts `python -m ackproof.clients.NAME CONFIG.json` in the namespace in which the client shall be. Clients
import nothing from the lab.
"""
