"""The value of a message: its producer and its number. The clients write it, and the judge reads it.

Our own producers write it in binary form, followed by padding. An external client writes it as text, PRODUCER.NUMBER:
the producer as scenarios count them, from 1, and the number of the message, counted from 0 in the order sent. So every
record of the log names its producer. A producer sends `count` messages, so its numbers are known and reserved before it
starts. A record with any other number is a phantom. A record that the client never reported is recovered.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection

MAGIC = b"ackp"
MESSAGE = struct.Struct(">4siq")  # magic, producer, number; padding follows
_VALUE = re.compile(rb"([1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,17})")


def pack(producer: int, seq: int, padding: bytes = b"") -> bytes:
    return MESSAGE.pack(MAGIC, producer, seq) + padding


def unpack(value: bytes | None, external: Collection[int] = ()) -> tuple[int, int]:
    """Producer and number, or (-1, -1) if the value holds none. The values of `external` producers are text."""
    if value is None or len(value) < MESSAGE.size or value[:4] != MAGIC:
        return unpack_text(value, external) if external else (-1, -1)
    _, producer, seq = MESSAGE.unpack_from(value)
    return producer, seq


def value_of(producer: int, seq: int) -> str:
    return f"{producer + 1}.{seq}"


def unpack_text(value: bytes | None, external: Collection[int]) -> tuple[int, int]:
    """Producer and number of an external client's value, or (-1, -1) if it is not from one of these producers."""
    if value is None or (match := _VALUE.fullmatch(value)) is None:
        return -1, -1
    producer, seq = int(match[1]) - 1, int(match[2])
    return (producer, seq) if producer in external else (-1, -1)
