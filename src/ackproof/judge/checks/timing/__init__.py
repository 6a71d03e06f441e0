"""Checks of latency, rates, alerts and exits."""
