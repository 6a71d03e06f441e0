"""The tests. They are chosen by marker; each imports from the others' folder `support` alone."""
