"""Consumers in a group, and receivers that accept each message once."""
