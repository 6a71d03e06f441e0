"""Judges beside the judge, and planted anomalies, to hold the judge's answers against."""
