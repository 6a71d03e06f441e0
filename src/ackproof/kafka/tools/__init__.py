"""Kafka's own command line tools, without their shell scripts."""
