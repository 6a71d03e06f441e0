"""The tables of the journal agree with each other."""

from __future__ import annotations

import pytest

from ackproof.model.journal_tables import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_every_table_begins_with_its_run_and_is_sorted_by_its_own_columns(name: str) -> None:
    table = TABLES[name]
    names = [column.name for column in table.columns]
    assert names[0] == "run"
    assert set(table.order) <= set(names)
    assert len(names) == len(set(names))
