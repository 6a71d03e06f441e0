"""Consumers in a group, and how they take each message once."""
