"""A lab with only a share of a processor, or none for a while, gets the same verdicts. Its slowness refutes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.model.run_record import read_record
from ackproof.model.verdict import Verdict, read_verdict
from tests.support.proving import size
from tests.support.real_lab import User, mentioning, ourselves, wait_until
from tests.support.skips import cannot_run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1500)]
Told = Callable[[str, object], None]

SHARES = size([50], [50, 25])  # percent of one processor
PERIOD_US = 100_000
STOPPED_S = 4
LATE_MS = 1_000
ASKED_EVERY_NS = 125_000_000
CGROUPS = Path("/sys/fs/cgroup")
SMALL = {"producer.count": 6000, "producer.rate": 500, "faults.0.at_messages": 2000, "cluster.quorum": 1}


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@contextmanager
def limited_to(share: int) -> Iterator[Path]:
    """Make a group of processes that gets this share of one processor, with either version of control groups."""
    second = (CGROUPS / "cgroup.controllers").exists()
    group = (CGROUPS if second else CGROUPS / "cpu") / f"ackproof-proof-{os.getpid()}"
    try:
        group.mkdir()
        if second:
            (group / "cpu.max").write_text(f"{share * PERIOD_US // 100} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(share * PERIOD_US // 100))
    except OSError as problem:
        if group.exists():
            group.rmdir()
        cannot_run(
            f"the share of a processor cannot be limited here ({problem.strerror}): that needs root, and cgroups"
        )
    try:
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty", 30)
        group.rmdir()


def started(us: User, out: Path, scenario: str, **changes: object) -> subprocess.Popen[str]:
    words = [word for name, value in {**SMALL, **changes}.items() for word in ("--set", f"{name}={value}")]
    return us.start("run", scenario, *words, "--out", str(out))


def judged(command: subprocess.Popen[str], out: Path) -> tuple[Verdict, bool]:
    """Run and judge a scenario, and return the verdict and whether the lab itself was late."""
    _, said = command.communicate(timeout=700)
    assert command.returncode in (0, 1, 3), said
    (run,) = out.iterdir()
    return read_verdict(run), late_ms(run) >= LATE_MS


def judged_with(share: int, us: User, out: Path, scenario: str, **changes: object) -> tuple[Verdict, bool]:
    with limited_to(share) as group:
        command = started(us, out, scenario, **changes)
        (group / "cgroup.procs").write_text(str(command.pid))
        return judged(command, out)


def late_ms(run: Path) -> float:
    """Return how late the lab itself was, from its journal and without the judge.

    The longest of these counts: the wait from when a broker should have been asked, or had answered, until it was asked
    (again); the lateness that the producer reports of itself; and that of each other process.
    """
    marks = read_record(run).marks
    assert marks.load_begun_ns is not None
    assert marks.load_ended_ns is not None
    asked: dict[int, dict[int, int]] = defaultdict(dict)  # for each broker: how long the answer took at each time
    for row in rows(run, "state"):
        asked[row["broker"]][row["at_ns"]] = row["took_ns"]
    waits_ns: list[int] = [
        min(then_ns, marks.load_ended_ns) - max(at_ns + max(took_ns, ASKED_EVERY_NS), marks.load_begun_ns)
        for own in asked.values()
        for (at_ns, took_ns), (then_ns, _) in pairwise(sorted(own.items()))
    ]
    told_ns: list[int] = [row["behind_ns"] for row in rows(run, "blocks") if row["used"] is not None]
    slept_ns: list[int] = [
        min(row["at_ns"], marks.load_ended_ns) - max(row["at_ns"] - row["behind_ns"], marks.load_begun_ns)
        for row in rows(run, "lateness")
    ]
    assert waits_ns
    assert told_ns
    assert slept_ns
    return max(*waits_ns, *told_ns, *slept_ns) / 1e6


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    return [row for path in (run / "journal" / table).glob("*.parquet") for row in pq.read_table(path).to_pylist()]


@pytest.mark.proves("D3")
@pytest.mark.parametrize("share", SHARES)
def test_a_loss_is_found_with_only_a_share_of_a_processor(
    us: User, tmp_path: Path, share: int, record_property: Told
) -> None:
    verdict, _ = judged_with(share, us, tmp_path, "acks1-leader-isolated")
    assert verdict.result == "confirmed", verdict.sentence
    assert verdict.lost
    record_property("figure", f"{share} % of a processor: {verdict.lost:,} of {verdict.acked:,} lost, confirmed")


@pytest.mark.proves("D3")
@pytest.mark.parametrize("share", SHARES)
def test_on_a_slow_machine_no_loss_is_found_where_none_can_be_and_slowness_refutes_nothing(
    us: User, tmp_path: Path, share: int, record_property: Told
) -> None:
    verdict, late = judged_with(share, us, tmp_path, "acksall-leader-isolated", **{"expect.unavailable": "forbidden"})
    results = {check.name: check.result for check in verdict.checks}
    assert (verdict.lost, results["lost"]) == (0, "confirmed"), verdict.sentence
    told = [line.text for line in verdict.fitness if "itself was late" in line.text]
    assert (len(told), results["unavailable"]) == ((1, "unknown") if late else (0, "refuted")), verdict.sentence
    assert verdict.result == results["unavailable"], verdict.sentence
    how = told[0] if late else "The lab itself was not late."
    record_property(
        "figure", f"{share} % of a processor: none of {verdict.acked:,} lost; a wait is {verdict.result}. {how}"
    )


@pytest.mark.proves("D3")
@pytest.mark.parametrize("stopped", ["observer", "producer", None])
def test_slowness_refutes_nothing_if_a_process_of_the_lab_was_stopped(
    us: User, tmp_path: Path, stopped: str | None, record_property: Told
) -> None:
    command = started(us, tmp_path, "acksall-leader-isolated", **{"expect.unavailable": "forbidden"})
    assert command.stderr is not None
    assert any("severed" in line for line in command.stderr)
    if stopped:
        ((process, _),) = mentioning(f"ackproof.clients.{stopped}") & us.processes()
        os.kill(process, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(process, signal.SIGCONT)
    verdict, late = judged(command, tmp_path)
    assert late or not stopped
    results = {check.name: check.result for check in verdict.checks}
    told = [line.text for line in verdict.fitness if "itself was late" in line.text]
    assert (len(told), results["unavailable"]) == ((1, "unknown") if late else (0, "refuted")), verdict.sentence
    assert (verdict.lost, results["lost"], verdict.result) == (0, "confirmed", results["unavailable"])
    how = f"its {stopped} stopped for {STOPPED_S} s" if stopped else "nothing stopped"
    record_property("figure", f"a laboratory with {how}: a wait is {verdict.result}. {' '.join(told)}".strip())
