"""Ackproof: what is an acknowledgement from Kafka worth when the cluster fails?"""

__version__ = "0.1.0"
