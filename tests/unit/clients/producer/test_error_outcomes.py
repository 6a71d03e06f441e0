"""What a client's error says of a message: `fail` only where nothing can have been written."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ackproof.clients.producer.error_outcomes import NEVER_SENT, REFUSED_BEFORE_WRITING, UNKNOWN_OUTCOME, meaning


@pytest.mark.parametrize("error", ["_MSG_TIMED_OUT", "_TRANSPORT", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT"])
@pytest.mark.parametrize("retries", [True, False])
def test_a_lost_answer_is_no_failure(error: str, retries: bool) -> None:
    assert meaning(error, retries).outcome == "info"


def test_refused_by_the_leader_is_a_failure_only_where_there_was_no_earlier_attempt() -> None:
    assert meaning("NOT_ENOUGH_REPLICAS", retries=False).outcome == "fail"
    assert meaning("NOT_ENOUGH_REPLICAS", retries=True).outcome == "info"


@pytest.mark.parametrize("retries", [True, False])
def test_refused_after_the_append_may_stay(retries: bool) -> None:
    assert meaning("NOT_ENOUGH_REPLICAS_AFTER_APPEND", retries).outcome == "info"


@pytest.mark.parametrize("error", ["_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_PURGE_QUEUE"])
def test_what_the_client_did_not_send_again_may_have_been_written_before(error: str) -> None:
    assert meaning(error, retries=False).outcome == "fail"
    assert meaning(error, retries=True).outcome == "info"


def test_what_never_left_the_client_failed() -> None:
    assert meaning("_QUEUE_FULL", retries=True).outcome == "fail"


def test_an_error_nobody_has_met_is_of_unknown_outcome() -> None:
    assert meaning("SOMETHING_NEW", retries=False).outcome == "info"


def test_every_error_of_the_table_is_one_that_the_client_knows() -> None:
    known = set(dir(KafkaError))
    named = {*NEVER_SENT, *REFUSED_BEFORE_WRITING, *UNKNOWN_OUTCOME}
    assert named <= known


def test_no_error_stands_in_two_tables() -> None:
    tables = (NEVER_SENT, REFUSED_BEFORE_WRITING, UNKNOWN_OUTCOME)
    assert sum(len(table) for table in tables) == len({name for table in tables for name in table})
