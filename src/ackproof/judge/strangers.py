"""Strangers' records: records without a message number, which no client of ours can have written.

Every message of a run names its producer and its number. In the journal, the producer of any other record is -1. Any
client that reaches the brokers can write such a record, so the record alone says nothing about Kafka. If it stands
where Kafka damaged one of our messages, then ours is missing, and the checks that look for ours say so. A record with
one of our numbers that no producer reserved is Kafka's doing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NO_PRODUCER = -1
# The checks for which such a record is a witness merely because it exists.
CHECKS_OF_PRESENCE = ("phantom", "mirror_differs")
WHY = "none of them has the form of this run's messages: a stranger, or an external client, wrote into the topic"


def without_number(witnesses: pa.Table) -> npt.NDArray[np.bool_]:
    """Which witnesses are strangers' records. In a mirror, only those that the original topic does not have."""
    strange = pc.equal(witnesses["producer"], NO_PRODUCER)
    if "difference" in witnesses.column_names:
        strange = pc.and_(strange, pc.equal(witnesses["difference"], "extra"))
    return np.asarray(strange.to_numpy(zero_copy_only=False) if isinstance(strange, pa.Array) else strange.to_numpy())
