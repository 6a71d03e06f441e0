"""Checks of where replicas, logs and keys are placed."""
