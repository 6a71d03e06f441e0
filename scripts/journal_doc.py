"""`docs/journal.md`, written from the schemas: `.venv/bin/python scripts/journal_doc.py > docs/journal.md`."""

from __future__ import annotations

from ackproof.journal.writer import FEW_ROWS, FLUSH_EVERY_S, STREAM_BYTES, TOGETHER_ROWS
from ackproof.model.journal_tables import SCHEMA_VERSION, TABLES, Table

_INTRODUCTION = f"""# The journal

Everything that happens in a run, in tables. This page is written by `scripts/journal_doc.py` from the schemas
in `src/ackproof/model/journal_tables.py`, and a test keeps it true to them. Schema version {SCHEMA_VERSION}.

```
runs/<name>/run.json                          what was run: the scenario as resolved, names of ids, versions, clocks
runs/<name>/journal/<table>/<writer>.arrows   while it grows: an Arrow IPC stream, readable at any moment
runs/<name>/journal/<table>/<writer>.parquet  sealed: sorted, written aside, synced, renamed into place whole
runs/<name>/journal/<table>/<a>+<b>.parquet   what the sealed files from <a> to <b> had, where each had little
runs/<name>/logs/<node>.log                   evidence: the nodes' and the clients' own words
```

- One writer per file, so no two processes ever wait for each other. Streams are flushed every {FLUSH_EVERY_S:g} s; what
  was flushed is readable after `kill -9` of everything. A torn tail is reported in bytes, and hides nothing before it.
- A stream of {STREAM_BYTES >> 20} MiB is ended, and sealed in the background while its writer goes on with the next
  (`<writer>.2`, `<writer>.3`). Sealed files hold numbers, offsets and times as differences; what that comes to for each
  event is in [performance.md](performance.md). A week of a consumer with ten polls a second of one message each is 39
  files, and seven in the end.
- At its end a run puts neighbours of fewer than {FEW_ROWS:,} rows each together, up to {TOGETHER_ROWS:,} rows in a
  file, sorted as one. `<a>+<b>` stands for every file from the one to the other, in the order of writers and of a
  writer's streams, from the moment at which it is there, and only then are they taken away: no kill leaves a row twice.
  What is torn or damaged stays by itself.
- Batches of a stream carry a CRC-32. So does a sealed file, of all that is in it; it stands right before the footer,
  where Parquet has nothing to read. What is damaged is named, and left out. Behind the last whole batch of a stream a
  crash leaves the first part of one more: whatever else is there was changed by the disk, or a person, and the run is
  unfit.
- Times are `time.monotonic_ns()` of the machine that ran it; `run.json` holds both clocks, read together, at the
  beginning and at the end.
- Outcomes are three: `ok`, `fail` (certainly not written), `info` (cannot know).
  `src/ackproof/clients/producer/error_outcomes.py` maps each error of the client, with the reason; the default is
  `info`.
- Nothing reaches the wire that the disk could not know about: numbers are reserved in `blocks` before they are used, so
  after a crash each of them is at least `info`.
- Every table carries `run`, so that one Spark job can judge many runs, or thousands of small histories, at once.
  The judge leaves out a file with rows of another run, and names it.
"""


def document() -> str:
    return "\n".join([_INTRODUCTION, *(_section(table) for table in TABLES.values())])


def _section(table: Table) -> str:
    rows = [
        f"| `{column.name}` | {column.type}{', may be null' if column.nullable else ''} | {column.meaning} |"
        for column in table.columns
    ]
    head = [f"## `{table.name}`", "", table.meaning, "", "| column | type | meaning |", "| --- | --- | --- |"]
    order = f"A sealed file is sorted by {', '.join(f'`{name}`' for name in table.order)}."
    return "\n".join([*head, *rows, "", order, ""])


if __name__ == "__main__":
    print(document(), end="")
