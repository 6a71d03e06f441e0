"""Data that both halves share: scenario, run record, journal tables, verdict. No behaviour of a lab or a judge."""
