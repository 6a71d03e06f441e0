"""One file a check, in a folder for each topic; each file holds the question."""
