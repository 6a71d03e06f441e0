"""not_exactly_once: an input message that was processed twice, or not at all, by the healed log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("producer", "key", "records", "answers", "seq")
PLAN: list[dict[str, Any]] = [{"copies": 1}, {"copies": 1, "transactions": {"input": "payments"}}]


def _run(inputs: int = 1, processors: int = 1) -> History:
    """Payments of the first producer; the second answers each with a settlement, and so do others."""
    made = History(producers=[PLAN[0], *PLAN[1:] * processors], topics=("payments", "settlements"))
    for seq in range(inputs):
        made.send(seq, seq).log(seq, seq)
    return made


def _answer(
    made: History, seq: int, key: int, *, stands: bool = True, outcome: str = "ok", producer: int = 1
) -> History:
    made.send(seq, seq, producer=producer, topic=1, key=key, outcome=outcome)
    return made.log(seq, seq, producer=producer, topic=1) if stands else made


CASES: Cases = {
    "never answered": (_answer(_run(2), 0, 0), [(1, 1, 1, 0, None)]),
    "answered twice": (_answer(_answer(_run(), 0, 0), 1, 0), [(1, 0, 1, 2, 0)]),
    "one answer that stands twice": (_answer(_run(), 0, 0).log(1, 0, producer=1, topic=1), [(1, 0, 1, 2, 0)]),
    "an answer without a question": (_answer(_answer(_run(), 0, 0), 1, 5), [(1, 5, 0, 1, 1)]),
    "answered by another": (_answer(_answer(_run(2), 0, 0), 9, 1, producer=0), [(1, 1, 1, 0, None)]),
    "near miss: once": (_answer(_run(), 0, 0), []),
    "near miss: aborted, and then once": (
        _answer(_answer(_run(), 0, 0, stands=False, outcome="fail"), 1, 0),
        [],
    ),
    "near miss: of unknown outcome, and in the log": (_answer(_run(), 0, 0, outcome="info"), []),
    "near miss: twice in the input, and twice answered": (_answer(_answer(_run().log(1, 0), 0, 0), 1, 0), []),
    "near miss: retention took the answer": (
        _answer(_answer(_run(2), 0, 0, stands=False), 1, 1).end(2, topic=1, log_start=1),
        [],
    ),
    "near miss: retention took the question": (_answer(_answer(_run(0), 0, 0), 1, 0).end(9, log_start=9), []),
    "answered twice, and retention took from the answers alone": (
        _answer(_answer(_run(), 1, 0), 2, 0).end(3, topic=1, log_start=1),
        [(1, 0, 1, 2, 1)],
    ),
    "never answered, and retention took from the questions alone": (
        _answer(_run(2), 0, 0).end(2, log_start=1),
        [(1, 1, 1, 0, None)],
    ),
    "near miss: two process, and each answered once": (
        _answer(_answer(_run(processors=2), 0, 0), 0, 0, producer=2),
        [],
    ),
    "two process, and one answered twice": (
        _answer(_answer(_answer(_run(processors=2), 0, 0), 0, 0, producer=2), 1, 0, producer=2),
        [(2, 0, 1, 2, 0)],
    ),
    "near miss: no producer processes it": (History(topics=("payments",)).send(0, 0).log(0, 0), []),
}


@pytest.mark.parametrize("case", CASES)
def test_not_exactly_once(case: str) -> None:
    assert found("not_exactly_once", case, CASES, *COLUMNS) == CASES[case][1]
