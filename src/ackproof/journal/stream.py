"""Reads a journal's stream: every whole batch, and what is damaged after the last of them.

A stream that a crash tore is readable up to its last whole batch. The reader reports how many bytes are torn; the rest
stays readable. Batches carry a checksum. Damage that no crash can cause is reported as corruption.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from ackproof.journal import checksums
from ackproof.journal.checksums import CHECKSUM
from ackproof.model.journal_tables import TABLES

BATCHES_AT_ONCE = 1_024  # combined into one chunk, because a tiny batch takes ten times its own size in memory
DIFFERS = "a batch differs from its checksum"
NO_CRASH = "no crash can cause this"
OTHER_SCHEMA = "this version does not know its schema"
IN_0_1 = ("no crash leaves that", "it is of another schema than this version knows")  # the words of version 0.1
CUT_SHORT = re.compile(r"(Expected to .*read|Corrupted me.*, only) [0-9]+ (metadata |)bytes")  # Arrow's messages
BEGIN_MARK = b"\xff\xff\xff\xff"  # of each message of a stream
END_MARK = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True)
class Damage:
    """The part of a stream that cannot be read, torn by its writer's crash or corrupted on the disk."""

    path: Path
    bytes_torn: int
    what: str


def is_from_crash(what: str) -> bool:
    """Whether this damage is the torn tail that a killed writer leaves. If not, bytes were corrupted."""
    return not what.endswith((DIFFERS, NO_CRASH, OTHER_SCHEMA, *IN_0_1))


def read_stream(path: Path) -> tuple[pa.Table, Damage | None]:
    """Every whole batch of a stream, and the damage after the last of them."""
    schema = TABLES[path.parent.name].schema
    older = TABLES[path.parent.name].older
    size = path.stat().st_size
    tables: list[pa.Table] = []
    batches: list[pa.RecordBatch] = []
    good = 0
    problem: str | None = None
    with pa.OSFile(str(path)) as source:
        try:
            reader = pa.ipc.open_stream(source)
            if reader.schema.equals(older):
                schema = older
            if not reader.schema.equals(schema):
                return schema.empty_table(), Damage(path, size, OTHER_SCHEMA)
            good = source.tell()
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                batch.validate(full=True)
                if metadata is not None and metadata.get(CHECKSUM) != checksums.of_batch(batch):
                    raise pa.ArrowInvalid(DIFFERS)
                batches.append(batch)
                good = source.tell()
                if len(batches) == BATCHES_AT_ONCE:
                    tables.append(pa.Table.from_batches(batches, schema).combine_chunks())
                    batches = []
            good = source.tell()  # after the end mark, if there is one
        except (pa.ArrowInvalid, OSError, pa.ArrowException) as error:
            problem = str(error).splitlines()[0]
    table = pa.concat_tables([*tables, pa.Table.from_batches(batches, schema)])
    if size <= good:  # a killed writer leaves no end mark; a missing end mark alone is no damage
        return table, None
    return table, Damage(path, size - good, _describe(path, good, problem or "bytes follow its end mark"))


def _describe(path: Path, good: int, problem: str) -> str:
    """The problem of the bytes after `good`, with a remark if no crash can have caused it.

    A crash leaves the first part of one message after the last whole message. Anything else was changed by the disk or
    by a person, and whole batches may be missing.
    """
    with path.open("rb") as file:
        file.seek(good)
        tail = file.read()
    begins_well = BEGIN_MARK.startswith(tail[: len(BEGIN_MARK)])  # if not, the batch before has a wrong length
    is_first_part = tail.count(CHECKSUM) < 2 and not tail.endswith(END_MARK) and CUT_SHORT.match(problem)
    return problem if begins_well and is_first_part else f"{problem}; {NO_CRASH}"
