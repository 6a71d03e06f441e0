"""The judge: run directories in, verdicts out. Needs Java for Spark; no Kafka, no root, nothing of the lab."""
