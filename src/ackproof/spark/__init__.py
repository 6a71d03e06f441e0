"""Spark sessions, and the Java process that they live in."""
