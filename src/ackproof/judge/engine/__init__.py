"""Where to look closer: a large journal is reduced to the blocks that may hold a witness."""
