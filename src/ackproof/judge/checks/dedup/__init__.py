"""Checks of receivers that take each message once."""
