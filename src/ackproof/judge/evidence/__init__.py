"""Evidence: whether a run can count as evidence at all. The judge asks this before it looks at what the run shows."""
