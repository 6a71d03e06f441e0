"""Messages in flight: answered messages are forgotten, and no others."""

from __future__ import annotations

import numpy as np

from ackproof.clients.producer.in_flight import FORGET, InFlight


def test_answered_messages_are_forgotten_in_any_order_of_the_answers() -> None:
    in_flight, chance = InFlight(), np.random.default_rng(7)
    for turn in range(20):
        in_flight.add(turn, FORGET)
        numbers = np.arange(turn * FORGET, (turn + 1) * FORGET)
        chance.shuffle(numbers)
        for part in np.array_split(numbers, 5):
            assert (in_flight.sent_ns(part) == turn).all()
            in_flight.answer(part)
        assert len(in_flight._sent_ns) <= 2 * FORGET
    assert len(in_flight) == 20 * FORGET
    assert len(in_flight.unanswered()) == 0


def test_an_unanswered_message_is_kept_with_its_time() -> None:
    in_flight = InFlight()
    in_flight.add(5, 3)
    in_flight.add(6, 4 * FORGET)
    in_flight.answer(np.setdiff1d(np.arange(len(in_flight)), [2, 9, 3 * FORGET]))
    missing = in_flight.unanswered()
    assert missing.tolist() == [2, 9, 3 * FORGET]
    assert in_flight.sent_ns(missing).tolist() == [5, 6, 6]
    in_flight.answer(missing)
    assert in_flight.unanswered().tolist() == []
