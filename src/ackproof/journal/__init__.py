"""The journal: everything that happened in a run, in tables. It is the only contract between the half that runs and the
half that judges.

    runs/<name>/run.json                         what was run: the resolved scenario, names of ids, versions, clocks
    runs/<name>/journal/<table>/<writer>.arrows   an Arrow stream that grows, readable at any moment
    runs/<name>/journal/<table>/<writer>.parquet  the stream sealed: sorted, written to another name, synced, renamed
    runs/<name>/journal/<table>/<a>+<b>.parquet   small sealed files, from <a> to <b>, merged into one

Each file has one writer. All times are `time.monotonic_ns()` of the machine that ran it. Ids are integers; `run.json`
holds their names. Every table has the column `run`, so that one Spark job can judge many runs.
"""
