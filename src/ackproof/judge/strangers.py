"""Records that no client of ours wrote: they carry no number of a producer at all.

Every message of a run says which producer it is from, and its number; in what was journaled, the producer of any other
record is -1. Whoever has a way to the brokers can write such a record, so alone it says nothing of Kafka. If it stands
where Kafka damaged one of ours, then ours is missing, and the checks that ask for ours say so. A record with a number
of ours that no producer reserved is another matter: that is Kafka's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NO_PRODUCER = -1
# The checks that such a record can be a witness of, by its mere presence.
CHECKS_OF_PRESENCE = ("phantom", "mirror_differs")
WHY = "none of them has the form of this run's messages: somebody else, or a foreign client, wrote into the topic"


def without_number(witnesses: pa.Table) -> npt.NDArray[np.bool_]:
    """Which witnesses are such records; of what a mirror made, only those that it has and the original has not."""
    strange = pc.equal(witnesses["producer"], NO_PRODUCER)
    if "difference" in witnesses.column_names:
        strange = pc.and_(strange, pc.equal(witnesses["difference"], "extra"))
    return np.asarray(strange.to_numpy(zero_copy_only=False) if isinstance(strange, pa.Array) else strange.to_numpy())
