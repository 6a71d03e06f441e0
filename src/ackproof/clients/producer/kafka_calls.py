"""Calls of a Kafka client that are retried, and that may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException

CALL_S = 5.0
HUNG_S = 20.0  # a call that should take at most CALL_S and has not returned by then never will
RETRY_FOR_S = 90.0
RETRY_EVERY_S = 0.1

C = TypeVar("C")
T = TypeVar("T")


def retried(call: Callable[[float], T], any_error: bool = False) -> T:
    """Call again as long as Kafka reports a retriable error; with `any_error`, after every error."""
    deadline = time.monotonic() + RETRY_FOR_S
    while True:
        try:
            return _within(HUNG_S, partial(call, CALL_S))
        except KafkaException as problem:
            if time.monotonic() > deadline or not (any_error or problem.args[0].retriable()):
                raise
            time.sleep(RETRY_EVERY_S)


def with_new_clients(make: Callable[[], C], call: Callable[[C, float], T], any_error: bool = False) -> tuple[C, T]:
    """Retry a call, with a new client each time that the call hangs. Return the last client and its answer."""
    deadline = time.monotonic() + RETRY_FOR_S
    while True:
        client = make()
        try:
            return client, retried(partial(call, client), any_error)
        except Hung:
            if time.monotonic() > deadline:
                raise


class Hung(Exception):
    """Says in one sentence that a call has not returned."""


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call. If the call does not return in time, abandon it and raise Hung.

    librdkafka has been seen to hang in `send_offsets_to_transaction`, in spite of its timeout, after the coordinator
    had died.
    """
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:  # noqa: BLE001  the caller gets it
            answer.set_exception(problem)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError:
        raise Hung(f"the client did not answer within {seconds:g} s") from None
