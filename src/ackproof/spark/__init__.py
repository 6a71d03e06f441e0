"""Spark sessions, and the Java process in which Spark runs."""
