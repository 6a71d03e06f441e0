"""`ackproof health` with a real cluster: it counts, notices silence, survives its Spark, and ends with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.real_lab import RealLab, lab, ourselves, processes_of, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

WAIT_S = 90.0
LINE = 50


@pytest.fixture(scope="module")
def kraft() -> Iterator[RealLab]:
    with ourselves() as user, lab(user, "health", "--mode", "kraft", "--brokers", "1", "--quorum", "1") as made:
        made.topic("create", "orders", "-p", "2")
        yield made


class Heard:
    """The output of a command, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: sum(text in line for line in list(self.lines)) >= times, f"{text!r} was said", WAIT_S)


def sparks_of(made: RealLab) -> list[int]:
    """Return the health check's Java processes, known by the jar that no other process has."""
    found = []
    for pid, _ in processes_of(made.status()["supervisor_pid"]):
        with suppress(OSError):
            if b"spark-sql-kafka" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def test_a_topic_that_does_not_exist_ends_with_one_sentence(kraft: RealLab) -> None:
    assert "no topic 'order' (did you mean orders?)" in kraft.refused(2, "health", "order")


def test_the_health_check_goes_on_through_silence_and_the_death_of_its_spark(kraft: RealLab) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    health = Heard(
        kraft.user.start("health", "orders", "--name", kraft.name, "--line", str(LINE), "--prometheus", str(port))
    )
    words = ("--topic", "orders", "--num-records", "1000000", "--throughput", "100", "--record-size", "16")
    load = Heard(kraft.user.start("kafka", "--name", kraft.name, "producer-perf-test", *words))

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    try:
        health.wait_for("watches orders")
        health.wait_for("from here on the rate is watched")
        assert re.search(r"^ackproof_rate \d", metrics(), re.MULTILINE)
        (spark,) = sparks_of(kraft)
        os.kill(spark, signal.SIGKILL)
        health.wait_for("started again from its checkpoint")
        health.wait_for("ALERT rate: no batch has finished")
        assert 'ackproof_alert{rule="rate"} 1' in metrics()
        health.wait_for("cleared rate")
        load.process.kill()
        health.wait_for("ALERT rate:", times=2)  # silence, or a late Spark on a busy machine
        health.process.send_signal(signal.SIGINT)
        assert health.process.wait(timeout=30) == 0
        wait_until(lambda: not sparks_of(kraft), "its Spark ended with it", WAIT_S)
    finally:
        for each in (load, health):
            each.end()
