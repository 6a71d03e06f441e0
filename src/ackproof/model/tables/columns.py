"""What a table of the journal is, and the columns that several tables share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from ackproof.model.tables.version import SCHEMA_VERSION


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    added: bool = False  # older runs do not have this column, and are read without it


@dataclass(frozen=True)
class Table:
    """A table of the journal: its columns, and the columns by which a sealed file is sorted."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return self._schema(self.columns)

    @property
    def older(self) -> pa.Schema:
        """The schema before columns were added."""
        return self._schema([column for column in self.columns if not column.added])

    def _schema(self, columns: Iterable[Column]) -> pa.Schema:
        fields = [pa.field(column.name, column.type, nullable=column.nullable) for column in columns]
        return pa.schema(fields, metadata={"ackproof.schema": str(SCHEMA_VERSION), "ackproof.table": self.name})


INT, LONG, TEXT, BOOL, FLOAT = pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.float64()
IDS, TEXTS = pa.list_(pa.int32()), pa.list_(pa.string())

RUN = Column("run", LONG, "The run's number: when it began, in microseconds since 1970; `run.json` holds its name.")
AT = Column("at_ns", LONG, "When it happened, on the monotonic clock.")
TOPIC = Column("topic", INT, "The topic's number; `run.json` holds its name.")
PARTITION = Column("partition", INT, "The partition.")
PRODUCER = Column("producer", INT, "The producer's number, read from the message; -1 if the message holds none.")
SEQ = Column("seq", LONG, "The number of the message, counted from 0 for each producer; -1 if the message holds none.")
CONSUMER = Column("consumer", INT, "The consumer's number.")
GROUP = Column("group", INT, "The consumer group's number.")
EPOCH = Column("leader_epoch", INT, "The epoch of the leader that wrote the record; null if it is not known.", True)
FAULT = Column("fault", INT, "The fault's number within the run, counted from 1 in the scenario's order.")
