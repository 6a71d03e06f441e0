"""TABLES: every table of the journal, with the meaning of each column. `docs/journal.md` is written from here."""

from __future__ import annotations

from ackproof.model.tables.cluster import CLUSTER
from ackproof.model.tables.columns import Table
from ackproof.model.tables.consuming import CONSUMING
from ackproof.model.tables.logs import LOGS
from ackproof.model.tables.producing import PRODUCING
from ackproof.model.tables.run_events import RUN_EVENTS

TABLES: dict[str, Table] = {table.name: table for table in (*PRODUCING, *CONSUMING, *LOGS, *CLUSTER, *RUN_EVENTS)}
