"""What a client's error means for a message: `fail` (certainly not written) or `info` (unknown). The default is `info`.

A message failed only if the error proves that no attempt to send it can have been written: the client itself refused
it, or a broker refused it before writing. With retries, an earlier attempt may have been written although a broker
refused the last one. So a broker's refusal proves something only if there was no earlier attempt.
"""

from __future__ import annotations

from typing import Literal

Outcome = Literal["ok", "fail", "info"]

# The client itself refused the message. It never reached the wire, with or without retries.
NEVER_SENT: dict[str, str] = {
    "_QUEUE_FULL": "the client's own queue was full, and it did not accept the message",
    "MSG_SIZE_TOO_LARGE": "too large: refused by the client, or by the broker before writing",
    "_INVALID_ARG": "the client did not accept it",
}

# A broker refused the message before it wrote anything, or the client dropped it instead of sending it again. This is
# proof only if there was no earlier attempt.
REFUSED_BEFORE_WRITING: dict[str, str] = {
    "_UNKNOWN_TOPIC": "the client found no such topic and sent nothing",
    "_UNKNOWN_PARTITION": "the client found no such partition and sent nothing",
    "_PURGE_QUEUE": "purged from the client's queue before it was sent",
    "NOT_ENOUGH_REPLICAS": "the leader checks the size of the ISR before it appends",
    "TOPIC_AUTHORIZATION_FAILED": "the broker authorizes a request before it appends",
    "CLUSTER_AUTHORIZATION_FAILED": "the broker authorizes a request before it appends",
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

# The outcome is unknown. These errors are listed only for the reason.
UNKNOWN_OUTCOME: dict[str, str] = {
    "_MSG_TIMED_OUT": "it may have been written and its acknowledgement lost",
    "_TIMED_OUT": "it may have been written and its acknowledgement lost",
    "REQUEST_TIMED_OUT": "the leader wrote it, and its followers did not confirm it in time",
    "_TRANSPORT": "the connection was lost while the request was in flight",
    "NETWORK_EXCEPTION": "the connection was lost while the request was in flight",
    "NOT_LEADER_FOR_PARTITION": "a leader may lose its leadership after it wrote (KAFKA-13574)",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "it is written on the leader, and may stay",
    "_PURGE_INFLIGHT": "purged while in flight",
    "_DESTROY": "the client was closed while the request was in flight",
    "KAFKA_STORAGE_ERROR": "the disk failed, before or after the write",
}


def outcome_of(error: str, retries: bool) -> Outcome:
    """The outcome of a message that ended with this error (librdkafka's name). The tables above give the reason."""
    return "fail" if error in NEVER_SENT or (error in REFUSED_BEFORE_WRITING and not retries) else "info"
