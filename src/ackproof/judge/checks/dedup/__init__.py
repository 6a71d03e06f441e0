"""Checks of receivers, which accept each message once."""
