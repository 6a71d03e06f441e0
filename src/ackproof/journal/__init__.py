"""The journal on disk: its writer, and the process that seals what the writer left."""
