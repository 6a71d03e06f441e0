"""Everything that can be wrong with a scenario beyond its shape."""
