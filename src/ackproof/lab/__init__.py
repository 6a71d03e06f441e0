"""The laboratory: namespaces, network, nodes, and the supervisor that the kernel cleans up after."""
