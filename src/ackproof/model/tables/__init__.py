"""The tables of the journal: one file per topic. `model/journal_tables.py` lists them all."""
