"""failover: each step, counted from the proof of the fault."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History
from tests.support.oracles.planting import WITNESS

COLUMNS = WITNESS["failover"]


def _faulty() -> History:
    return History().fault(("asked", 90), ("proved", 100), ("healed", 900)).state(0, 1, leader=1, epoch=0)


def _everywhere() -> History:
    """In two partitions of two topics the same happens, at each a little later."""
    history = History(topics=("orders", "payments")).fault(("asked", 90), ("proved", 100), ("healed", 900))
    for seq, (topic, partition) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        place: dict[str, Any] = {"topic": topic, "partition": partition}
        later = 10 * seq
        history.state(0, 1, leader=1, epoch=0, **place)
        history.state(250 + later, 2, leader=2, epoch=1, isr=(2, 3), **place)
        history.state(1000 + later, 2, leader=2, epoch=1, **place)
        history.send(seq, outcome="info", sent=95, done=130 + later, **place)
        history.send(10 + seq, 0, sent=300, done=350 + later, **place).log(0, 10 + seq, epoch=1, **place)
    return history


CASES: Cases = {
    "each partition of each topic by itself": (
        _everywhere(),
        [
            (1, 0, 0, 1, 30.0, 150.0, 250.0, 900.0),
            (1, 0, 0, 1, 50.0, 170.0, 270.0, 920.0),
            (1, 1, 0, 1, 40.0, 160.0, 260.0, 910.0),
            (1, 1, 0, 1, 60.0, 180.0, 280.0, 930.0),
        ],
    ),
    "an error after a fault whose request was not recorded": (
        History()
        .fault(("proved", 100))
        .state(0, 1, leader=1, epoch=0)
        .send(0, outcome="info", sent=95, done=110)
        .log(0, 9),
        [(1, 0, 0, None, 10.0, None, None, None)],
    ),
    "every step": (
        _faulty()
        .send(0, 0, done=50)
        .send(1, outcome="info", sent=95, done=130)
        .send(2, 1, sent=300, done=350)
        .log(0, 0, epoch=0)
        .log(1, 2, epoch=1)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(800, 2, leader=2, epoch=1, isr=(2, 3))
        .state(1000, 2, leader=2, epoch=1),
        [(1, 0, 0, 1, 30.0, 150.0, 250.0, 900.0)],
    ),
    "an old leader that still reports a full ISR": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(300, 1, leader=1, epoch=0),
        [(1, 0, 0, 1, None, 150.0, None, None)],
    ),
    "an old leader whose ISR becomes full later than that of the last one": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(250, 1, leader=1, epoch=0, isr=(1,))
        .state(300, 2, leader=2, epoch=1)
        .state(400, 1, leader=1, epoch=0),
        [(1, 0, 0, 1, None, 150.0, None, 200.0)],
    ),
    "an ISR that becomes full, and a later epoch of another partition": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(300, 2, leader=2, epoch=1)
        .state(500, 3, leader=3, epoch=2, partition=1),
        [(1, 0, 0, 1, None, 150.0, None, 200.0)],
    ),
    "an ISR that becomes full, and a later epoch of another topic": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(300, 2, leader=2, epoch=1)
        .state(500, 3, leader=3, epoch=2, topic=1),
        [(1, 0, 0, 1, None, 150.0, None, 200.0)],
    ),
    "near miss: only an old leader's ISR becomes full after the fault": (
        History()
        .fault(("asked", 90), ("proved", 100))
        .state(0, 1, leader=1, epoch=0, isr=(1,))
        .state(20, 2, leader=2, epoch=1, isr=(2, 3))
        .state(50, 2, leader=2, epoch=1)
        .state(400, 1, leader=1, epoch=0)
        .send(0, 0, done=50)
        .log(0, 0, epoch=0),
        [(1, 0, 1, None, None, None, None, None)],
    ),
    "near miss: steps that only wait, or add partitions": (
        History()
        .fault(("asked", 90), ("proved", 100), ("healed", 100), kind="caught-up", heals="")
        .fault(("asked", 90), ("proved", 100), ("healed", 100), kind="translated", heals="")
        .fault(("asked", 90), ("proved", 100), ("healed", 100), kind="resize", heals="")
        .send(0, 0)
        .log(0, 0),
        [],
    ),
    "near miss: the leader stays": (
        _faulty().send(0, 0, done=50).log(0, 0, epoch=0).state(250, 1, leader=1, epoch=0),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "near miss: an error before the fault is none of its own": (
        _faulty().send(0, outcome="fail", done=89).send(1, 0, done=99).log(0, 1),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "an error between asking for the fault and its proof": (
        _faulty().send(0, outcome="info", done=96).send(1, 0, done=99).log(0, 1),
        [(1, 0, 0, None, -4.0, None, None, None)],
    ),
    "near miss: an ISR that shrinks again is not full": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(200, 1, leader=1, epoch=0, isr=(1,))
        .state(300, 1, leader=1, epoch=0)
        .state(400, 1, leader=1, epoch=0, isr=(1, 2)),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "a fault that was never proved has no story": (
        History().fault(("asked", 90), ("not proved", 100)).send(0, 0).log(0, 0),
        [],
    ),
    "the first of each, and only what is its own": (
        History()
        .fault(("asked", 90), ("proved", 100), ("proved", 200), ("healed", 900))
        .state(0, 1, leader=1, epoch=3, isr=(1, 2))
        .state(50, 1, leader=1, epoch=3)
        .state(140, 3, leader=3, epoch=6, isr=None)
        .state(150, 2, leader=2, epoch=5, isr=(2,))
        .state(400, 2, leader=2, epoch=5)
        .state(500, 2, leader=2, epoch=5, isr=(2, 3))
        .state(600, 2, leader=2, epoch=5)
        .state(700, 2, leader=2, epoch=5)
        .state(800, 3, leader=2, epoch=5, isr=(2, 3))
        .send(0, outcome="fail", partition=1, sent=95, done=120)
        .send(1, outcome="fail", sent=95, done=140)
        .send(2, outcome="info", sent=95, done=135)
        .send(3, outcome="info", sent=95, never_done=True)
        .send(4, outcome="info", sent=150, done=155)
        .send(5, 1, sent=160, done=200)
        .send(6, 3, sent=170, done=300)
        .send(7, 4, sent=180, done=310)
        .send(8, 5, sent=190, done=290)
        .log(0, 4, epoch=6)
        .log(1, 5, epoch=6)
        .log(2, 5, epoch=6)
        .log(3, 6, epoch=6)
        .log(4, 7, epoch=6)
        .log(5, 8, epoch=7),
        [(1, 0, 3, 6, 35.0, 40.0, 190.0, 500.0), (1, 1, None, None, 20.0, None, None, None)],
    ),
    "an error without a partition, at the moment of the proof": (
        _faulty().send(0, 0, done=50).send(1, outcome="fail", partition=-1, sent=95, done=100).log(0, 0),
        [(1, 0, 0, None, 0.0, None, None, None)],
    ),
    "an error as the fault is asked for": (
        _faulty().send(0, outcome="info", sent=80, done=90).send(1, 0, done=99).log(0, 1),
        [(1, 0, 0, None, -10.0, None, None, None)],
    ),
    "near miss: an error of the other partition": (
        _faulty().send(0, outcome="fail", sent=95, done=110).log(0, 9).log(0, 5, partition=1),
        [(1, 0, 0, None, 10.0, None, None, None), (1, 1, None, None, None, None, None, None)],
    ),
    "the first acknowledgement of several from one epoch": (
        _faulty()
        .send(0, 0, done=50)
        .send(1, 1, sent=300, done=350)
        .send(2, 2, sent=301, done=351)
        .log(0, 0, epoch=0)
        .log(1, 1, epoch=1)
        .log(2, 2, epoch=1)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3)),
        [(1, 0, 0, 1, None, 150.0, 250.0, None)],
    ),
    "no epoch was reported before, and not by every broker afterwards": (
        History()
        .fault(("asked", 90), ("proved", 100))
        .state(120, 3, leader=2, epoch=None)
        .state(150, 2, leader=2, epoch=4, isr=(2,))
        .send(0, 0)
        .log(0, 0),
        [(1, 0, None, 4, None, 50.0, None, None)],
    ),
    "near miss: a broker reports an old epoch late": (
        History()
        .fault(("asked", 90), ("proved", 100))
        .state(0, 1, leader=1, epoch=3)
        .state(150, 3, leader=3, epoch=2, isr=(3,))
        .state(250, 2, leader=2, epoch=4, isr=(2,))
        .send(0, 0, done=50)
        .log(0, 0),
        [(1, 0, 3, 4, None, 150.0, None, None)],
    ),
    "near miss: an epoch without a leader": (
        _faulty()
        .state(150, 2, leader=-1, epoch=1, isr=())
        .state(200, 2, leader=0, epoch=2, isr=(0,))
        .send(0, 0, done=50)
        .log(0, 0),
        [(1, 0, 0, 2, None, 100.0, None, None)],
    ),
    "near miss: a new epoch is reported at the moment of the proof": (
        _faulty().state(100, 2, leader=2, epoch=1, isr=(2,)).send(0, 0, done=50).log(0, 0),
        [(1, 0, 1, None, None, None, None, None)],
    ),
    "near miss: no partition was read": (_faulty(), []),
    "near miss: full at the moment of the proof": (
        History()
        .fault(("proved", 100))
        .state(0, 1, leader=1, epoch=0, isr=(1,))
        .state(100, 1, leader=1, epoch=0)
        .send(0, 0)
        .log(0, 0),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "near miss: a consumer is killed": (
        History()
        .fault(("proved", 100), kind="kill", became="consumer2")
        .state(0, 1, leader=1, epoch=0)
        .send(0)
        .log(0, 0),
        [],
    ),
    "near miss: a broker is started": (
        History().fault(("proved", 100), kind="start").state(0, 1, leader=1, epoch=0).send(0, 0).log(0, 0),
        [],
    ),
    "near miss: full since before the fault": (
        History()
        .fault(("proved", 100))
        .state(0, 1, leader=1, epoch=0, isr=(1,))
        .state(50, 1, leader=1, epoch=0)
        .state(150, 1, leader=1, epoch=0)
        .send(0, 0)
        .log(0, 0),
        [(1, 0, 0, None, None, None, None, None)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_failover(case: str) -> None:
    assert found("failover", case, CASES, *COLUMNS) == CASES[case][1]
