"""refusals: a producer that may not write, and was not clearly refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.asking import Cases, found, witnesses
from tests.support.histories import FIRST_RUN, History

COLUMNS = ("producer", "seq", "fate", "error")
REFUSED = "TOPIC_AUTHORIZATION_FAILED"


def _run() -> History:
    """The first producer may write; the second may not."""
    made = History(producers=[{"copies": 1}, {"copies": 1, "refused": True}]).send(0, 0).log(0, 0)
    return made.send(0, producer=1, outcome="fail", error=REFUSED)


CASES: Cases = {
    "another error": (
        _run().send(1, producer=1, outcome="fail", error="MSG_SIZE_TOO_LARGE"),
        [(1, 1, "rejected", "MSG_SIZE_TOO_LARGE")],
    ),
    "of unknown outcome": (
        _run().send(1, producer=1, outcome="info", error=REFUSED),
        [(1, 1, "not_written", REFUSED)],
    ),
    "acknowledged": (_run().send(1, 1, producer=1).log(1, 1, producer=1), [(1, 1, "survived", None)]),
    "refused, and yet in the log": (
        _run().send(1, producer=1, outcome="fail", error=REFUSED).log(1, 1, producer=1),
        [(1, 1, "resurrected", REFUSED)],
    ),
    "it never tried": (
        History(producers=[{"copies": 1}, {"copies": 1, "refused": True}])
        .send(0, 0)
        .log(0, 0)
        .block(0, 1, 1)
        .block(0, 1, 0, producer=1),
        [(1, None, None, None)],
    ),
    "near miss: clearly refused": (_run(), []),
    "near miss: by the cluster": (
        _run().send(1, producer=1, outcome="fail", error="CLUSTER_AUTHORIZATION_FAILED"),
        [],
    ),
    "near miss: another error of a producer that may write": (
        _run().send(1, outcome="info", error="_MSG_TIMED_OUT"),
        [],
    ),
}


def test_a_witness_names_the_topic_of_the_message_or_of_the_plan_if_the_producer_never_tried() -> None:
    elsewhere = replace(_run().send(1, producer=1, topic=1, outcome="info"), run=FIRST_RUN + 1)
    rows = witnesses("refusals", CASES["it never tried"][0], elsewhere)
    assert sorted((row["run"] - FIRST_RUN, row["topic"]) for row in rows) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("case", CASES)
def test_refusals(case: str) -> None:
    assert found("refusals", case, CASES, *COLUMNS) == CASES[case][1]
