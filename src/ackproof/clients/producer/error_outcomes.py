"""What a client's error says of a message: `fail` (certainly not written) or `info` (cannot know). The default is info.

A message counts as failed only where the error proves that no attempt of it can have been written: the client refused
it itself, or a broker refused it before writing. With retries an earlier attempt may have been written although the
last one was refused; so what a broker says proves something only where there was no earlier attempt.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Outcome = Literal["ok", "fail", "info"]


class Meaning(NamedTuple):
    outcome: Outcome
    reason: str


# Refused by the client itself: it never reached the wire, whatever the retries.
NEVER_SENT: dict[str, str] = {
    "_QUEUE_FULL": "the client's own queue was full, and it took the message not at all",
    "MSG_SIZE_TOO_LARGE": "too large: refused by the client, or by the broker before writing",
    "_INVALID_ARG": "the client did not accept it",
}

# Refused by a broker before it wrote anything, or by the client before it sent it again: proof where this was the only
# attempt.
REFUSED_BEFORE_WRITING: dict[str, str] = {
    "_UNKNOWN_TOPIC": "the client found no such topic and sent nothing",
    "_UNKNOWN_PARTITION": "the client found no such partition and sent nothing",
    "_PURGE_QUEUE": "purged from the client's queue before it was sent",
    "NOT_ENOUGH_REPLICAS": "the leader checks the size of the ISR before it appends",
    "TOPIC_AUTHORIZATION_FAILED": "the authorizer stands before the log",
    "CLUSTER_AUTHORIZATION_FAILED": "the authorizer stands before the log",
    "INVALID_RECORD": "validated before the append",
    "INVALID_MSG": "validated before the append",
    "INVALID_REQUIRED_ACKS": "validated before the append",
    "INVALID_TIMESTAMP": "validated before the append",
    "RECORD_LIST_TOO_LARGE": "validated before the append",
    "UNSUPPORTED_COMPRESSION_TYPE": "validated before the append",
    "POLICY_VIOLATION": "validated before the append",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "the sequence is checked before the append",
    "INVALID_PRODUCER_EPOCH": "a fenced producer is refused before the append",
    "PRODUCER_FENCED": "a fenced producer is refused before the append",
}

# Known, and of unknown outcome: here only so that the reason can be looked up.
UNKNOWN_OUTCOME: dict[str, str] = {
    "_MSG_TIMED_OUT": "it may have been written and its acknowledgement lost",
    "_TIMED_OUT": "it may have been written and its acknowledgement lost",
    "REQUEST_TIMED_OUT": "the leader wrote it and waited in vain for its followers",
    "_TRANSPORT": "the connection was lost with the request under way",
    "NETWORK_EXCEPTION": "the connection was lost with the request under way",
    "NOT_LEADER_FOR_PARTITION": "a leader may lose its office after it wrote (KAFKA-13574)",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "it is written on the leader, and may stay",
    "_PURGE_INFLIGHT": "purged while under way",
    "_DESTROY": "the client was closed with the request under way",
    "KAFKA_STORAGE_ERROR": "the disk failed, before or after the write",
}


def meaning(error: str, retries: bool) -> Meaning:
    """The outcome of a message that ended with this error, by librdkafka's name, and why."""
    if error in NEVER_SENT:
        return Meaning("fail", NEVER_SENT[error])
    if error in REFUSED_BEFORE_WRITING and not retries:
        return Meaning("fail", REFUSED_BEFORE_WRITING[error])
    if error in REFUSED_BEFORE_WRITING:
        return Meaning("info", f"{REFUSED_BEFORE_WRITING[error]}, but an earlier attempt may have been written")
    return Meaning("info", UNKNOWN_OUTCOME.get(error, "nothing is known that would prove it was not written"))
