"""The validation of a scenario: one file for each part of it."""
