"""Fitness: whether a run is evidence, one sentence for each question.

A run is unfit if a fault was not proved, was not probed while it was active, or was not healed; if nothing flowed
before the fault or after it; if the final log was not read to its end; if a producer's message numbers have holes; or
if the figures do not add up. The result is then `unknown`, even if the checks found something. A fit line may carry a
remark.
"""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.judge.evidence import faults, final_log, interference, processes
from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.run_source import Source
from ackproof.model.journal_tables import TABLES
from ackproof.model.verdict import Fitness


def fitness(e: Evidence) -> list[Fitness]:
    """Every line, in a fixed order: how the run ended, then what is wrong with the journal's files, then the rest."""
    return [
        *ended(e),
        *e.source.remarks,
        *faults.faults(e),
        *interference.others(e),
        *interference.disturbed(e),
        *interference.joined(e),
        *interference.topics(e),
        *faults.traffic(e),
        *final_log.final_log(e),
        *final_log.numbers(e),
        *final_log.outcomes(e),
        *final_log.identity(e),
        *processes.nodes(e),
        *processes.clients(e),
        *processes.clocks(e),
        *processes.views(e),
        *processes.lateness(e),
    ]


def ended(e: Evidence) -> list[Fitness]:
    """How the run ended, and the problems that `run.json` lists."""
    how = e.source.record.ended
    if how == "complete":
        text = "The run went to its end."
    elif how is None:
        text = "The run was killed before it ended."
    else:
        text = f"The run did not go to its end: it was {how}."
    return [Fitness("ended", how == "complete", text), *(Fitness("problem", True, p) for p in e.source.record.problems)]


def log_was_read(lines: Sequence[Fitness]) -> bool:
    """Whether the final log is complete. If it is not, a missing record is no loss, and nothing can be counted."""
    return all(line.fit for line in lines if line.name in ("journal", "final_log"))


def missing(source: Source, tables: Sequence[str]) -> list[str]:
    """The tables among these in which this run has no row."""
    return [name for name in tables if name in TABLES and source.rows[name] == 0]
