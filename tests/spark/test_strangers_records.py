"""Witnesses that any stranger could have written, and near misses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ackproof.judge.strangers import without_number

pytestmark = pytest.mark.proves("C7")


def test_a_phantom_may_be_a_strangers_only_without_a_producers_number() -> None:
    table = pa.table({"producer": [-1, 0, 3, -1], "seq": [-1, 77, 0, -1]})
    assert without_number(table).tolist() == [True, False, False, True]
    assert without_number(table.slice(0, 0)).tolist() == []


def test_a_mirrors_record_may_be_a_strangers_only_if_the_original_lacks_it() -> None:
    table = pa.table({"producer": [-1, -1, -1, 0], "difference": ["extra", "missing", "changed", "extra"]})
    assert without_number(table).tolist() == [True, False, False, False]
