"""Which witnesses are records that anybody could have written: the near miss beside the hit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ackproof.judge.strangers import without_number

pytestmark = pytest.mark.proves("C7")


def test_a_phantom_is_anybodys_only_without_a_number_of_a_producer() -> None:
    table = pa.table({"producer": [-1, 0, 3, -1], "seq": [-1, 77, 0, -1]})
    assert without_number(table).tolist() == [True, False, False, True]
    assert without_number(table.slice(0, 0)).tolist() == []


def test_of_a_mirror_it_is_only_what_the_original_does_not_have() -> None:
    table = pa.table({"producer": [-1, -1, -1, 0], "difference": ["extra", "missing", "changed", "extra"]})
    assert without_number(table).tolist() == [True, False, False, False]
