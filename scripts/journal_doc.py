"""Write `docs/journal.md` from the schemas: `.venv/bin/python scripts/journal_doc.py > docs/journal.md`."""

from __future__ import annotations

from ackproof.journal.compaction import FEW_ROWS, MERGED_ROWS_MOST
from ackproof.journal.writer import FLUSH_EVERY_S, STREAM_BYTES
from ackproof.model.journal_tables import TABLES
from ackproof.model.tables.columns import Table
from ackproof.model.tables.version import SCHEMA_VERSION

_INTRODUCTION = f"""# The journal

Everything that happens in a run, in tables. `scripts/journal_doc.py` writes this page from the schemas in
`src/ackproof/model/tables/`, and a test compares them. Schema version {SCHEMA_VERSION}.

```
runs/<name>/run.json                          what was run: the resolved scenario, names of ids, versions, clocks
runs/<name>/journal/<table>/<writer>.arrows   an Arrow IPC stream that grows, readable at any moment
runs/<name>/journal/<table>/<writer>.parquet  the stream sealed: sorted, written to another name, synced, renamed
runs/<name>/journal/<table>/<a>+<b>.parquet   small sealed files, from <a> to <b>, merged into one
runs/<name>/logs/<node>.log                   evidence: the logs of the nodes and the clients
```

- Each file has one writer, so no process waits for another. Streams are flushed every {FLUSH_EVERY_S:g} s. Flushed
  rows are readable after `kill -9` of every process. A torn tail is reported in bytes; everything before it stays
  readable.
- A stream of {STREAM_BYTES >> 20} MiB is ended, and sealed in the background while its writer continues with the next
  (`<writer>.2`, `<writer>.3`). Sealed files hold numbers, offsets and times as differences;
  [performance.md](performance.md) says how many bytes an event takes. A consumer that polls ten times a second, with
  one message each time, leaves 39 files in a week, and seven after the merge.
- At its end a run merges neighbours with fewer than {FEW_ROWS:,} rows each, up to {MERGED_ROWS_MOST:,} rows in a
  file, sorted as one. Files are ordered by writer, and each writer's files by stream. From the moment at which
  `<a>+<b>` exists, it replaces every file from `<a>` to `<b>`; only then are those deleted. So no kill leaves a row
  twice. Torn and damaged files are not merged.
- Batches of a stream carry a CRC-32. A sealed file has a CRC-32 of all its bytes, right before the footer, where no
  Parquet reader looks. Damaged data is reported and left out. A crash leaves the first part of one more batch after
  the last whole batch of a stream. Anything else there was changed by the disk or by a person, and the run is unfit.
- Times are `time.monotonic_ns()` of the machine that ran it. `run.json` holds both clocks, read together, at the
  beginning and at the end.
- There are three outcomes: `ok`, `fail` (certainly not written), `info` (unknown).
  `src/ackproof/clients/producer/error_outcomes.py` maps each error of the client, with the reason; the default is
  `info`.
- A producer reserves numbers in `blocks`, on disk, before it uses them. So no message reaches the wire that the
  journal does not know, and after a crash each reserved number is at least `info`.
- Every table has the column `run`, so that one Spark job can judge many runs, or thousands of small histories, at
  once. The judge leaves out a file with rows of another run, and reports its name.
"""


def document() -> str:
    return "\n".join([_INTRODUCTION, *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    rows = [
        f"| `{column.name}` | {column.type}{', may be null' if column.nullable else ''} | {column.meaning} |"
        for column in table.columns
    ]
    head = [f"## `{table.name}`", "", table.meaning, "", "| column | type | meaning |", "| --- | --- | --- |"]
    order = f"Sealed files are sorted by {', '.join(f'`{name}`' for name in table.order)}."
    return "\n".join([*head, *rows, "", order, ""])


if __name__ == "__main__":
    print(document(), end="")
