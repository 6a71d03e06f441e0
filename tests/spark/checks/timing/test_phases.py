"""phases: what became of the messages between one fault and the next."""

from __future__ import annotations

import pytest

from ackproof.model.run_record import Marks
from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("phase", "after", "sent", "written", "refused", "unknown", "lost", "settled")
BEFORE = (0, "the beginning", 1, 1, 0, 0, 0, "written")
KILLED = "kill kafka1"


def _killed() -> History:
    """A load of 20 s, a kill at 10 s; one message before it that stays."""
    marks = Marks(load_begun_ns=at(0), load_ended_ns=at(20_000))
    history = History(marks=marks, settings={"phases": True}).send(0, 0, sent=8_000).log(0, 0)
    return history.fault(("asked", 9_900), ("proved", 10_000), ("healed", 10_000), kind="kill", asked="kafka1")


CASES: Cases = {
    "written": (_killed().send(1, 1, sent=18_000).log(1, 1), [BEFORE, (1, KILLED, 1, 1, 0, 0, 0, "written")]),
    "refused": (_killed().send(1, outcome="fail", sent=18_000), [BEFORE, (1, KILLED, 1, 0, 1, 0, 0, "refused")]),
    "unavailable": (
        _killed().send(1, outcome="info", sent=18_000),
        [BEFORE, (1, KILLED, 1, 0, 0, 1, 0, "unavailable")],
    ),
    "lost": (_killed().send(1, 1, sent=18_000), [BEFORE, (1, KILLED, 1, 0, 0, 0, 1, "lost")]),
    "at last refused, though written at first": (
        _killed().send(1, 1, sent=11_000).log(1, 1).send(2, outcome="fail", sent=18_000),
        [BEFORE, (1, KILLED, 2, 1, 1, 0, 0, "refused")],
    ),
    "near miss: at last written, though refused at first": (
        _killed().send(1, outcome="fail", sent=11_000).send(2, 1, sent=18_000).log(1, 2),
        [BEFORE, (1, KILLED, 2, 1, 1, 0, 0, "written")],
    ),
    "nothing came back, though it was written when the next fault was over": (
        _killed()
        .send(1, 1, sent=12_000, done=17_000)
        .log(1, 1)
        .fault(("asked", 15_000), ("proved", 18_000), ("healed", 18_000), kind="start", asked="kafka1")
        .send(2, 2, sent=18_500)
        .log(2, 2),
        [BEFORE, (1, KILLED, 1, 1, 0, 0, 0, "unavailable"), (2, "start kafka1", 1, 1, 0, 0, 0, "written")],
    ),
    "near miss: slow, and what was sent at first is acknowledged at last": (
        _killed().send(1, 1, sent=11_000, done=18_000).log(1, 1).send(2, outcome="info", sent=18_500, done=25_000),
        [BEFORE, (1, KILLED, 2, 1, 0, 1, 0, "written")],
    ),
    "acknowledged as its last seconds begin": (
        _killed().send(1, 1, sent=11_000, done=17_000).log(1, 1),
        [BEFORE, (1, KILLED, 1, 1, 0, 0, 0, "written")],
    ),
    "near miss: acknowledged a nanosecond before its last seconds": (
        _killed().send(1, 1, sent=11_000, done=16_999.999999).log(1, 1),
        [BEFORE, (1, KILLED, 1, 1, 0, 0, 0, "unavailable")],
    ),
    "near miss: acknowledged as it ends": (
        _killed().send(1, 1, sent=11_000, done=20_000).log(1, 1),
        [BEFORE, (1, KILLED, 1, 1, 0, 0, 0, "unavailable")],
    ),
    "sent as it begins": (
        _killed().send(1, 1, sent=10_000).log(1, 1),
        [BEFORE, (1, KILLED, 1, 1, 0, 0, 0, "unavailable")],
    ),
    "near miss: sent as the next fault is asked for": (
        _killed().send(1, 1, sent=9_900, done=9_950).log(1, 1),
        [BEFORE],
    ),
    "each topic by itself": (_killed().send(1, 0, topic=1, sent=8_000).log(0, 1, topic=1), [BEFORE, BEFORE]),
    "near miss: another run, whose times are the same": (_killed(), [BEFORE]),
}


@pytest.mark.parametrize("case", CASES)
def test_phases(case: str) -> None:
    assert found("phases", case, CASES, *COLUMNS) == CASES[case][1]
