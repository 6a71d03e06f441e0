"""Kafka's jars: fetched, checked, cached."""
