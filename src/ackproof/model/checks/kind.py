"""CheckKind: what the judge, the docs and the verdict have to know of one check.

The entry says what a witness is, when the check applies, what it needs, and what a run may show if its scenario does
not say. The question itself is the function `<name>` in `judge/checks/<topic>/<name>.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ackproof.model import check_conditions as conditions
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Expected

# What a check needs of consumers: "whole": they read everything; "in time": none was late or killed; "owned": none was
# so late that its group may have removed it.
ConsumerNeeds = Literal["whole", "in time", "owned"]


@dataclass(frozen=True)
class CheckKind:
    """One check. Each row that its function returns is a witness; with `counted_column`, only rows where it is set."""

    witness: str  # the unit that the verdict counts: "{found} acknowledged message(s) missing from the healed log"
    definition: str  # exactly what a witness is; a row of the table in docs/judge.md
    meaning: str  # one sentence of the glossary: what it means for a user who is new to Kafka
    advice: str  # and one: what to do about it
    default: Expected = "allowed"
    needs: tuple[str, ...] = ("sends", "ends")  # if one of these tables is empty, finding no witness proves nothing
    counted_column: str | None = None
    applies_to: Callable[[RunRecord], bool] = conditions.always  # in other runs nothing is expected of it
    needs_fates: bool = False
    prefilterable: bool = False  # it asks about single messages; in a large journal it reads the suspect blocks only
    needs_full_scan: bool = False  # it asks about all messages, and the prefilter counts nothing for it
    depends_on_time: bool = False  # it asks how long something took; if the lab was late, it is not refuted
    threshold: str = ""  # the key of [judge] that it compares with, in ms
    needs_consumers: ConsumerNeeds | None = None  # it asks what consumers received: see `judge/doubts.py`
    inconclusive_when: tuple[str, str] | None = None  # a column and its value: the observation ended too early
    needs_epochs: bool = False  # it asks for leader epochs, which a log read from a live cluster does not contain
    # Facts that an external client does not report. The check is then not applicable to it.
    producers_lack: str = ""
    consumers_lack: str = ""
    latest_consumers_lack: str = ""  # consumers that start at the latest offset
