"""The lab's own processes: the supervisor with its commands, the fault timer and the port relay."""
