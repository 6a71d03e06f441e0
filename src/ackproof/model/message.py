"""The form of a message: whose it is, and which. The clients write it, the judge reads it.

Of our own clients it is binary, with padding behind. A foreign client's value is text, PRODUCER.NUMBER: the producer as
scenarios count them, from 1, and the number of the message, counted from 0 in the order sent. So a record of the log
says by itself whose it is; and since a producer is asked for `count` messages, the numbers that it may use are known,
and reserved, before it starts. A record that none of them explains is a phantom; one that the client never told of is
recovered.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection

MAGIC = b"ackp"
MESSAGE = struct.Struct(">4siq")  # magic, producer, number; what follows is padding
_VALUE = re.compile(rb"([1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,17})")


def pack(producer: int, seq: int, padding: bytes = b"") -> bytes:
    return MESSAGE.pack(MAGIC, producer, seq) + padding


def unpack(value: bytes | None, foreign: Collection[int] = ()) -> tuple[int, int]:
    """Producer and number, or (-1, -1) for a message of nobody; the values of foreign producers are text."""
    if value is None or len(value) < MESSAGE.size or value[:4] != MAGIC:
        return unpack_text(value, foreign) if foreign else (-1, -1)
    _, producer, seq = MESSAGE.unpack_from(value)
    return producer, seq


def value_of(producer: int, seq: int) -> str:
    return f"{producer + 1}.{seq}"


def unpack_text(value: bytes | None, foreign: Collection[int]) -> tuple[int, int]:
    """Producer and number of a foreign client's value, or (-1, -1) where it is none of these producers'."""
    if value is None or (match := _VALUE.fullmatch(value)) is None:
        return -1, -1
    producer, seq = int(match[1]) - 1, int(match[2])
    return (producer, seq) if producer in foreign else (-1, -1)
