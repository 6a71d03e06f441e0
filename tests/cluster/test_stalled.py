"""An outsider stops a consumer: the messages that its group misses are never blamed on Kafka."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackproof.model.verdict import Verdict, read_verdict
from tests.support.real_lab import User, mentioning, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1200)]
Told = Callable[[str, object], None]
FEWER = ("--set", "producer.count=2000", "--set", "cluster.quorum=1")
NEAR_THE_END_S = 2.0  # the load takes ten seconds


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


def ran_with_its_consumer_stopped(us: User, out: Path, for_s: float | None) -> Verdict:
    """Run three groups of one consumer each. The first is stopped near the end of the load, for so long or for good."""
    command = us.start("run", "publish-subscribe", "--mode", "kraft", *FEWER, "--out", str(out))
    assert command.stderr is not None
    assert any("consumer3: started" in line for line in command.stderr)  # five seconds after the load began
    time.sleep(5.0 - NEAR_THE_END_S)
    ((process, _),) = mentioning("/clients/consumer1.json") & us.processes()
    os.kill(process, signal.SIGSTOP)
    if for_s is not None:
        time.sleep(for_s)
        os.kill(process, signal.SIGCONT)
    _, said = command.communicate(timeout=900)
    assert command.returncode in (0, 3), said
    (run,) = out.iterdir()
    return read_verdict(run)


@pytest.mark.proves("D3")
def test_the_run_waits_for_a_consumer_that_goes_on_and_names_its_lateness(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    verdict = ran_with_its_consumer_stopped(us, tmp_path, 7.0)
    checks = {check.name: (check.found, check.result) for check in verdict.checks}
    assert checks["undelivered"] == (0, "confirmed"), verdict.sentence
    (told,) = [line.text for line in verdict.fitness if line.text.startswith("consumer1 was late")]
    record_property("figure", f"a consumer stopped for 7 s near the end of the load: all delivered. {told}")


@pytest.mark.proves("D3")
def test_messages_missed_by_a_consumer_that_never_goes_on_are_unknown(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    verdict = ran_with_its_consumer_stopped(us, tmp_path, None)
    (check,) = [check for check in verdict.checks if check.name == "undelivered"]
    assert check.found
    assert (check.result, verdict.result) == ("unknown", "unknown"), verdict.sentence
    assert "consumer1 did not stop when the lab asked it to, and was killed" in check.text
    record_property("figure", f"a consumer stopped for good: {check.text}")
