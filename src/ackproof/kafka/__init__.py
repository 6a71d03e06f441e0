"""Apache Kafka as it comes: its jars, its settings, its tools, and questions in its own protocol."""
