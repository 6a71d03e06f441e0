"""Questions to one node, in Kafka's own protocol or in ZooKeeper's."""
