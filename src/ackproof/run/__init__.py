"""A run: a scenario carried out in a lab of its own, with everything written down."""
