"""unavailable: a wait for an acknowledgement longer than the threshold, which is a second by default."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("partition", "ms", "waiting", "failed")


def _regular(sends: int) -> History:
    history = History()
    for seq in range(sends):
        history.send(seq, seq, sent=500 * seq)
    return history


def _everywhere() -> History:
    history = History(topics=("orders", "payments"))
    for seq, (topic, partition) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        history.send(seq, 0, topic=topic, partition=partition, sent=0, done=2000)
    return history


CASES: Cases = {
    "in two partitions of two topics at the same time": (
        _everywhere(),
        [(0, 2000.0, 1, 0), (0, 2000.0, 1, 0), (1, 2000.0, 1, 0), (1, 2000.0, 1, 0)],
    ),
    "a send without a partition, in each of two topics with one partition": (
        History(topics=("orders", "payments"))
        .send(0, 0, sent=0, done=1)
        .send(1, 0, topic=1, sent=0, done=1)
        .send(2, outcome="info", topic=1, partition=-1, sent=5, done=2005),
        [(0, 2000.0, 1, 1)],
    ),
    "a send that waits two seconds": (
        History().send(0, 0, sent=0, done=1).send(1, 1, sent=10, done=2010),
        [(0, 2000.0, 1, 0)],
    ),
    "sends that fail one after the other": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, outcome="fail", sent=100, done=600)
        .send(2, outcome="info", sent=700, done=1200)
        .send(3, 1, sent=1300, done=1400),
        [(0, 1300.0, 3, 2)],
    ),
    "from the first send on": (History().send(0, 0, sent=0, done=1500), [(0, 1500.0, 1, 0)]),
    "nothing was ever acknowledged": (History().send(0, outcome="info", sent=0, done=3000), [(0, 3000.0, 1, 1)]),
    "the last window closes with the load": (
        History().send(0, 0, sent=0, done=1).send(1, outcome="info", sent=5, done=2005),
        [(0, 2000.0, 1, 1)],
    ),
    "the last window, while another partition is acknowledged": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, outcome="info", sent=5, done=2005)
        .send(2, 0, partition=1, sent=2003, done=2004),
        [(0, 2000.0, 1, 1)],
    ),
    "the last window, while another topic is acknowledged": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, outcome="info", sent=5, done=2005)
        .send(2, 0, topic=1, sent=2003, done=2004),
        [(0, 2000.0, 1, 1)],
    ),
    "between two acks, while another partition is acknowledged": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, 1, sent=5, done=2505)
        .send(2, 0, partition=1, sent=1000, done=1001),
        [(0, 2500.0, 1, 0)],
    ),
    "between two acks, while another topic is acknowledged": (
        History().send(0, 0, sent=0, done=1).send(1, 1, sent=5, done=2505).send(2, 0, topic=1, sent=1000, done=1001),
        [(0, 2500.0, 1, 0)],
    ),
    "a send that was never answered waits until the end": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, outcome="info", sent=5, never_done=True)
        .send(2, outcome="fail", sent=1500, done=1505),
        [(0, 1500.0, 2, 2)],
    ),
    "a send without a partition, in a topic with one partition": (
        History().send(0, 0, sent=0, done=1).send(1, outcome="info", partition=-1, sent=5, done=2005),
        [(0, 2000.0, 1, 1)],
    ),
    "a threshold from the scenario": (
        History(settings={"unavailable_ms": 100}).send(0, 0, sent=0, done=150),
        [(0, 150.0, 1, 0)],
    ),
    "near miss: exactly the threshold": (History().send(0, 0, sent=0, done=1000), []),
    "near miss: exactly the threshold, in a longer pause": (
        History().send(0, 0, sent=0, done=1).send(1, 1, sent=500, done=1500),
        [],
    ),
    "the first of two partitions": (
        History().send(0, 0, sent=0, done=1).send(1, 0, partition=1, sent=0, done=1).send(2, 1, sent=10, done=2010),
        [(0, 2000.0, 1, 0)],
    ),
    "a send that begins as the wait ends has not waited": (
        History().send(0, 0, sent=0, done=1500).send(1, 1, sent=1500, done=1600),
        [(0, 1500.0, 1, 0)],
    ),
    "from the first of several sends that are acknowledged at about the same time": (
        History().send(0, 0, sent=0, done=1500).send(1, 1, sent=1400, done=1600),
        [(0, 1500.0, 2, 0)],
    ),
    "near miss: a slow producer": (
        History().send(0, 0, sent=0, done=1).send(1, 1, sent=3000, done=3001).send(2, 2, sent=6000, done=6001),
        [],
    ),
    "near miss: one send waits, others are acknowledged": (
        History()
        .send(0, outcome="info", sent=0, done=2000)
        .send(1, 1, sent=0, done=800)
        .send(2, 2, sent=500, done=1600),
        [],
    ),
    "near miss: one send waits, others are acknowledged, and the run is longer": (
        _regular(18).send(18, 18, sent=7000, done=8501),
        [],
    ),
    "near miss: a send without a partition, in a topic with two partitions": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, 0, partition=1, sent=0, done=1)
        .send(2, outcome="info", partition=-1, sent=5, done=2005),
        [],
    ),
    "from the last ack before to the first ack after": (
        History()
        .send(0, 0, sent=0, done=100)
        .send(1, 1, sent=0, done=900)
        .send(2, 2, sent=950, done=2500)
        .send(3, 3, sent=960, done=2600),
        [(0, 1550.0, 2, 0)],
    ),
    "from the first of several sends": (
        History().send(0, 0, sent=0, done=1500).send(1, 1, sent=1400, done=2400),
        [(0, 1500.0, 2, 0)],
    ),
    "to the last of several outcomes": (
        History()
        .send(0, 0, sent=0, done=1)
        .send(1, outcome="info", sent=5, done=2005)
        .send(2, outcome="info", sent=6, done=1006),
        [(0, 2000.0, 2, 2)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unavailable(case: str) -> None:
    assert found("unavailable", case, CASES, *COLUMNS) == CASES[case][1]
