"""A laboratory that gets a share of a processor, or none for a while, comes to the same verdicts and refutes nothing by
its slowness."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_lab import User, mentioning, ourselves, wait_until

from ackproof.verdict import Verdict, read_verdict
from conftest import cannot_run
from proving import size

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1500)]
Told = Callable[[str, object], None]

SHARES = size([50], [50, 25])  # percent of one processor
PERIOD_US = 100_000
STOPPED_S = 4
CGROUPS = Path("/sys/fs/cgroup")
SMALL = {"producer.count": 6000, "producer.rate": 500, "faults.0.at_messages": 2000, "cluster.quorum": 1}


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@contextmanager
def limited_to(share: int) -> Iterator[Path]:
    """A group of processes that gets so much of one processor and no more, by either version of the kernel's."""
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
        cannot_run(f"no share of a processor can be given here ({problem.strerror}): it takes root, and cgroups")
    try:
        yield group
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty", 30)
        group.rmdir()


def started(us: User, out: Path, scenario: str, **changes: object) -> subprocess.Popen[str]:
    words = [word for name, value in {**SMALL, **changes}.items() for word in ("--set", f"{name}={value}")]
    return us.start("run", scenario, *words, "--out", str(out))


def judged(command: subprocess.Popen[str], out: Path) -> Verdict:
    _, said = command.communicate(timeout=700)
    assert command.returncode in (0, 1, 3), said
    (run,) = out.iterdir()
    return read_verdict(run)


def judged_with(share: int, us: User, out: Path, scenario: str, **changes: object) -> Verdict:
    with limited_to(share) as group:
        command = started(us, out, scenario, **changes)
        (group / "cgroup.procs").write_text(str(command.pid))
        return judged(command, out)


@pytest.mark.proves("D3")
@pytest.mark.parametrize("share", SHARES)
def test_a_loss_is_found_with_a_share_of_a_processor(
    us: User, tmp_path: Path, share: int, record_property: Told
) -> None:
    verdict = judged_with(share, us, tmp_path, "acks1-leader-isolated")
    assert verdict.result == "confirmed", verdict.sentence
    assert verdict.lost
    record_property("figure", f"{share} % of a processor: {verdict.lost:,} of {verdict.acked:,} lost, confirmed")


@pytest.mark.proves("D3")
@pytest.mark.parametrize("share", SHARES)
def test_none_is_found_where_none_can_be_and_what_took_long_is_no_refutation(
    us: User, tmp_path: Path, share: int, record_property: Told
) -> None:
    verdict = judged_with(share, us, tmp_path, "acksall-leader-isolated", **{"expect.unavailable": "forbidden"})
    results = {check.name: check.result for check in verdict.checks}
    assert (verdict.lost, results["lost"]) == (0, "confirmed"), verdict.sentence
    late = [line.text for line in verdict.fitness if "itself was late" in line.text]
    assert results["unavailable"] == ("unknown" if late else "refuted"), verdict.sentence
    assert verdict.result == results["unavailable"], verdict.sentence
    how = late[0] if late else "The laboratory itself was not late."
    record_property(
        "figure", f"{share} % of a processor: none of {verdict.acked:,} lost; a wait is {verdict.result}. {how}"
    )


@pytest.mark.proves("D3")
@pytest.mark.parametrize("late", [True, False], ids=["late", "in time"])
def test_what_took_long_is_no_refutation_where_the_observer_of_a_run_was_stopped(
    us: User, tmp_path: Path, late: bool, record_property: Told
) -> None:
    command = started(us, tmp_path, "acksall-leader-isolated", **{"expect.unavailable": "forbidden"})
    assert command.stderr is not None
    assert any("severed" in line for line in command.stderr)
    if late:
        ((observer, _),) = mentioning("ackproof.clients.observer") & us.processes()
        os.kill(observer, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(observer, signal.SIGCONT)
    verdict = judged(command, tmp_path)
    results = {check.name: check.result for check in verdict.checks}
    told = [line.text for line in verdict.fitness if "itself was late" in line.text]
    assert (len(told), results["unavailable"]) == ((1, "unknown") if late else (0, "refuted")), verdict.sentence
    assert (verdict.lost, results["lost"], verdict.result) == (0, "confirmed", results["unavailable"])
    how = f"stopped for {STOPPED_S} s" if late else "not stopped"
    record_property("figure", f"an observer {how}: a wait is {verdict.result}. {' '.join(told)}".strip())
