"""Messages under way: what was answered is forgotten, and nothing else."""

from __future__ import annotations

import numpy as np

from ackproof.clients.producer.in_flight import FORGET, UnderWay


def test_what_was_answered_is_forgotten_in_whatever_order_the_answers_come() -> None:
    under_way, chance = UnderWay(), np.random.default_rng(7)
    for turn in range(20):
        under_way.add(turn, FORGET)
        numbers = np.arange(turn * FORGET, (turn + 1) * FORGET)
        chance.shuffle(numbers)
        for part in np.array_split(numbers, 5):
            assert (under_way.sent_ns(part) == turn).all()
            under_way.answer(part)
        assert len(under_way._sent_ns) <= 2 * FORGET
    assert len(under_way) == 20 * FORGET
    assert len(under_way.unanswered()) == 0


def test_one_that_is_not_answered_is_kept_with_when_it_was_sent() -> None:
    under_way = UnderWay()
    under_way.add(5, 3)
    under_way.add(6, 4 * FORGET)
    under_way.answer(np.setdiff1d(np.arange(len(under_way)), [2, 9, 3 * FORGET]))
    missing = under_way.unanswered()
    assert missing.tolist() == [2, 9, 3 * FORGET]
    assert under_way.sent_ns(missing).tolist() == [5, 6, 6]
    under_way.answer(missing)
    assert under_way.unanswered().tolist() == []
