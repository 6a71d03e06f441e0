"""What a client's error means for a message: `fail` only if it cannot have been written."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ackproof.clients.producer.error_outcomes import NEVER_SENT, REFUSED_BEFORE_WRITING, UNKNOWN_OUTCOME, outcome_of


@pytest.mark.parametrize("error", ["_MSG_TIMED_OUT", "_TRANSPORT", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT"])
@pytest.mark.parametrize("retries", [True, False])
def test_after_a_lost_answer_the_outcome_is_unknown(error: str, retries: bool) -> None:
    assert outcome_of(error, retries) == "info"


def test_a_refusal_by_the_leader_is_a_failure_only_without_an_earlier_attempt() -> None:
    assert outcome_of("NOT_ENOUGH_REPLICAS", retries=False) == "fail"
    assert outcome_of("NOT_ENOUGH_REPLICAS", retries=True) == "info"


@pytest.mark.parametrize("retries", [True, False])
def test_after_a_refusal_that_follows_the_append_the_outcome_is_unknown(retries: bool) -> None:
    assert outcome_of("NOT_ENOUGH_REPLICAS_AFTER_APPEND", retries) == "info"


@pytest.mark.parametrize("error", ["_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_PURGE_QUEUE"])
def test_an_error_before_a_retry_is_a_failure_only_without_an_earlier_attempt(error: str) -> None:
    assert outcome_of(error, retries=False) == "fail"
    assert outcome_of(error, retries=True) == "info"


def test_a_message_that_never_left_the_client_failed() -> None:
    assert outcome_of("_QUEUE_FULL", retries=True) == "fail"


def test_an_unlisted_error_has_an_unknown_outcome() -> None:
    assert outcome_of("SOMETHING_NEW", retries=False) == "info"


def test_every_listed_error_is_one_of_the_client() -> None:
    known = set(dir(KafkaError))
    named = {*NEVER_SENT, *REFUSED_BEFORE_WRITING, *UNKNOWN_OUTCOME}
    assert named <= known


def test_no_error_is_in_two_tables() -> None:
    tables = (NEVER_SENT, REFUSED_BEFORE_WRITING, UNKNOWN_OUTCOME)
    assert sum(len(table) for table in tables) == len({name for table in tables for name in table})
