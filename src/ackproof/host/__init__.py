"""This machine: namespaces, processes, memory, ports, Java."""
