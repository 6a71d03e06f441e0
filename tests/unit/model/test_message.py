"""The value of a message names its producer and its number."""

from __future__ import annotations

import pytest

from ackproof.model.message import pack, unpack, unpack_text


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"1.0", (0, 0)),
        (b"3.123456", (2, 123456)),
        (b"2.5", (-1, -1)),  # the second producer is our own, and does not write text
        (b"0.5", (-1, -1)),
        (b"01.5", (-1, -1)),
        (b"1.05", (-1, -1)),
        (b"1.5 ", (-1, -1)),
        (b"1.5\n", (-1, -1)),
        (b"5", (-1, -1)),
        (b"", (-1, -1)),
        (None, (-1, -1)),
    ],
)
def test_a_value_names_its_producer_and_its_number(value: bytes | None, found: tuple[int, int]) -> None:
    assert unpack_text(value, [0, 2]) == unpack(value, [0, 2]) == found


def test_binary_values_are_always_read_and_text_values_only_in_runs_with_external_producers() -> None:
    assert unpack(pack(1, 7), [0]) == (1, 7)
    assert unpack(b"1.7") == (-1, -1)
