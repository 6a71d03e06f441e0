"""Whole runs: from a scenario to a verdict, interrupted, and killed in the middle."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from ackproof.clients.runtime import Progress
from ackproof.host import namespaces as kernel
from ackproof.lab.directory import LabDirectory
from ackproof.model.run_record import read_record
from ackproof.model.verdict import read_verdict
from ackproof.run.fault_lifecycle import GRACE_S
from tests.support.lab_network import in_a_child
from tests.support.proving import size
from tests.support.real_lab import (
    Host,
    RealLab,
    User,
    added_up,
    alive,
    an_ordinary_user,
    assert_clean,
    intents,
    journal_rows,
    left_stubborn,
    on_the_host,
    ourselves,
    own_namespaces,
    rows,
    told_torn,
    wait_until,
)
from tests.support.small_disk import mount_small_disk

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

Told = Callable[[str, object], None]
SMALL = ("--set", "producer.count=8000", "--set", "producer.rate=600", "--set", "faults.0.at_messages=2000")
SLOW = ("--no-judge", "--set", "producer.count=6000", "--set", "producer.rate=100", "--set", "faults.0.at_messages=200")


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.fixture
def before() -> Host:
    return on_the_host()


def begun(us: User, out: Path, until: str, words: Sequence[str] = SMALL) -> subprocess.Popen[str]:
    """Yield a run that has printed this."""
    run = us.start("run", "acks1-leader-isolated", *words, "--out", str(out))
    said_until(run, until)
    return run


def said_until(run: subprocess.Popen[str], until: str) -> str:
    """Return the output up to the line that holds this."""
    assert run.stderr is not None
    said = ""
    for line in run.stderr:
        said += line
        if until in line:
            return said
    raise AssertionError(f"the run never said {until!r}: {said}")


def only_run(out: Path) -> Path:
    (directory,) = out.iterdir()
    return directory


@pytest.mark.proves(*size([], ["B4"]))  # in CI another run shows it
@pytest.mark.parametrize("mode", ["zookeeper", pytest.param("kraft", marks=pytest.mark.long)])
def test_an_isolated_leader_with_acks_1_loses_acknowledged_messages(
    us: User, tmp_path: Path, mode: str, record_property: Told
) -> None:
    done = us.run(
        "run", "acks1-leader-isolated", *SMALL, "--mode", mode, "--out", str(tmp_path), "--json", timeout_s=500
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    assert (told["result"], told["sent"], told["acked"]) == ("confirmed", 8000, 8000)
    assert told["lost"] == told["acked"] - told["high_watermark"] > 0
    assert told["faults"] == [{"kind": "isolate", "targets": told["faults"][0]["targets"], "proved": True}]
    assert sum(told["fates"].values()) == told["sent"]
    page = Path(told["report"]).read_text()
    assert "Confirmed" in page
    assert us.labs() == []
    record_property("figure", f"{mode}: {added_up(only_run(tmp_path))}")


# Without a rate the length of the load is not known beforehand, so the scenario may have a fault that comes too late.
TOO_LATE = """
name = "too-late"
section = "A"
title = "A fault after the load"
summary = "All was sent when it came."

[cluster]
brokers = 1
quorum = 1

[[topics]]
name = "orders"
replication = 1

[[producers]]
topic = "orders"
count = 200

[[faults]]
kind = "pause"
targets = ["kafka1"]
at_s = 30
until_s = 32

[expect]
lost = "forbidden"
"""


@pytest.mark.long
@pytest.mark.proves("C7")
@pytest.mark.timeout(900)
def test_a_run_whose_load_ended_before_its_fault_is_no_evidence_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    scenario, out = tmp_path / "too-late.toml", tmp_path / "runs"
    scenario.write_text(TOO_LATE)
    done = us.run("run", str(scenario), "--out", str(out), "--json", timeout_s=500)
    assert done.returncode == 3, done.stderr
    (told,) = json.loads(done.stdout)["runs"]
    assert (told["result"], told["sent"], told["acked"]) == ("unknown", 200, 200)
    verdict = read_verdict(only_run(out))
    assert verdict is not None
    assert "never began" in verdict.sentence
    again = us.run("judge", str(only_run(out)), timeout_s=300)
    assert (again.returncode, read_verdict(only_run(out))) == (3, verdict)
    record_property("figure", f"a run whose load was over before its fault: exit 3. {verdict.sentence}")


@pytest.mark.proves("A9", "B4")
def test_a_run_with_acks_0_has_no_offsets_notes_what_was_killed_and_reports_a_failed_clean_up(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    run = us.start("run", "acks0-leader-killed", *SMALL, "--out", str(tmp_path), "--json", first=own_mounts)
    try:
        said = said_until(run, "network made")
        (lab,) = us.labs()
        assert in_a_child(lambda: hold_mounted(run.pid, lab / "settings")) is None
        out, err = run.communicate(timeout=500)
    finally:
        run.kill()
    assert run.returncode == 0, said + err
    unclean = [line for line in err.splitlines() if "unclean: " in line]
    assert [str(lab) in line and "could not be removed" in line for line in unclean] == [True], err
    assert json.loads((only_run(tmp_path) / "verdict" / "verdict.json").read_text())["result"] == "confirmed"
    assert us.run("down", "--name", lab.name).returncode == 0, (
        "the next run tries the clean-up again, as the sentence says"
    )
    assert us.labs() == []
    record_property("figure", 'a lab\'s folder that cannot be taken away: exit 0, verdict written, "unclean" told')
    told = json.loads(out)["runs"][0]
    assert {name for name, count in told["fates"].items() if count} <= {"survived", "lost_unplaced", "rejected"}
    (broker,) = told["faults"][0]["targets"]
    directory = only_run(tmp_path)
    ended = {row["node"]: row for row in rows(directory, "nodes")}
    assert (ended[broker]["signal"], ended[broker]["by_itself"]) == (signal.SIGKILL, False)
    assert ended["producer1"]["code"] == 0
    assert {row["offset"] for row in rows(directory, "sends")} == {None}
    assert list(intents(directory).values()) == [8000]
    record_property("figure", f"without acknowledgements: {added_up(directory)}")


def own_mounts() -> None:
    """Unshare the mounts: a process that does this `first` has mounts of its own, which end with it."""
    own_namespaces(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)


def hold_mounted(pid: int, folder: Path) -> None:
    """Keep the folder in use with a mount, so that it cannot be removed."""
    namespaces = {
        kind: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        for name, kind in (("user", kernel.CLONE_NEWUSER), ("mnt", kernel.CLONE_NEWNS))
        if not Path(f"/proc/{pid}/ns/{name}").samefile(f"/proc/self/ns/{name}")
    }
    for kind, namespace in namespaces.items():
        kernel.setns(namespace, kind)
    kernel.mount(str(folder), folder, flags=kernel.MS_BIND)


@pytest.mark.proves("A2")
@pytest.mark.parametrize(
    ("who", "moment", "number", "ended"),
    [
        (ourselves, "severed", signal.SIGINT, "interrupted"),
        pytest.param(ourselves, "judging", signal.SIGTERM, "complete", marks=pytest.mark.long),
        pytest.param(ourselves, "severed", signal.SIGTERM, "interrupted", marks=pytest.mark.long),
        pytest.param(an_ordinary_user, "severed", signal.SIGINT, "interrupted", marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_heals_seals_and_says_that_it_was_not_judged(
    who: Callable[[], AbstractContextManager[User]],
    moment: str,
    number: signal.Signals,
    ended: str,
    before: Host,
    record_property: Told,
) -> None:
    with who() as user:
        out = user.state / "runs"
        run = begun(user, out, moment)
        sent = time.monotonic()
        run.send_signal(number)
        said, err = run.communicate(timeout=15)
        took_s = time.monotonic() - sent
        assert run.returncode == 128 + number
        assert "Traceback" not in err
        assert ("healed" in err) == (moment == "severed"), "otherwise the fault is healed already"
        assert "not judged" in said
        directory = ended_in_good_order(user, out, before, ended)
        assert not (directory / "verdict").exists()
        if moment == "severed":
            judged = user.run("judge", str(directory), "--json", timeout_s=200)
            assert judged.returncode == 3
            assert json.loads(judged.stdout)["runs"][0]["result"] == "unknown"
    how = f"{number.name} when the run said {moment!r}, {who.__name__.replace('_', ' ')}"
    record_property("figure", f"{how}: exit {run.returncode} after {took_s:.1f} s, clean")


@pytest.mark.proves("A2")
@pytest.mark.long
def test_a_run_whose_lab_is_stopped_can_be_interrupted_in_time(
    us: User, tmp_path: Path, before: Host, record_property: Told
) -> None:
    run = begun(us, tmp_path, "severed")
    (lab,) = us.labs()
    os.kill(LabDirectory(lab).started().supervisor_pid, signal.SIGSTOP)
    sent = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=15)
    took_s = time.monotonic() - sent
    assert run.returncode == 130
    assert "Traceback" not in err
    directory = ended_in_good_order(us, tmp_path, before, healed="not healed")
    assert "healing isolate: the lab does not answer" in str(read_record(directory).problems)
    record_property("figure", f"SIGINT with the supervisor stopped: exit 130 after {took_s:.1f} s, clean")


@pytest.mark.proves("A3")
@pytest.mark.long
def test_processes_that_ignore_signals_or_are_stopped_end_with_the_run(
    us: User, tmp_path: Path, before: Host, record_property: Told
) -> None:
    words = (*SLOW, "--set", "topic.replication=2")  # long enough to do all of it under load
    run = begun(us, tmp_path, "severed", words)
    try:
        (folder,) = us.labs()
        lab = RealLab(us, folder.name)
        with left_stubborn(lab, "zk3", a_broker_that_holds_nothing(lab)) as processes:
            _, err = run.communicate(timeout=500)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, err
    assert not alive(processes)
    assert us.labs() == []
    assert_clean(us, before)
    told = "a run with a deaf daemon, a deaf child, and a ZooKeeper and a broker stopped"
    record_property("figure", f"{told}: came to its end, clean")


def a_broker_that_holds_nothing(lab: RealLab) -> str:
    """Return a broker that holds no replica, so that the run can go on without it."""
    (told,) = json.loads(lab.topic("describe", "orders", "--json"))
    (without,) = {"kafka1", "kafka2", "kafka3"} - set(told["replicas"])
    return without


@pytest.mark.proves("A4", "D1")
@pytest.mark.long
def test_a_fault_of_a_run_ends_in_the_kernel_while_the_supervisor_is_stopped_and_is_no_evidence(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    until_s, stopped_s = 10, size(30, 60)
    changes = {
        "producer.count": 200 * 50, "producer.rate": 200, "faults.0.at_messages": 400, "faults.0.until_s": until_s,
        "faults.0.not_before_max_s": 1,
    }  # fmt: skip
    words = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    run = us.start("run", "acks1-leader-isolated", *words, "--out", str(tmp_path))
    said_until(run, "severed")
    (lab,) = us.labs()
    supervisor = LabDirectory(lab).started().supervisor_pid
    os.kill(supervisor, signal.SIGSTOP)
    time.sleep(stopped_s)
    go_on_ns = time.monotonic_ns()
    os.kill(supervisor, signal.SIGCONT)
    _, err = run.communicate(timeout=200)
    assert run.returncode == 3, err
    directory = only_run(tmp_path)
    events = {row["event"]: row for row in rows(directory, "faults")}
    begun_ns = read_record(directory).marks.load_begun_ns
    assert begun_ns is not None
    took_s = (events["healed"]["at_ns"] - begun_ns) / 1e9
    assert events["healed"]["by"] == "the kernel"
    assert abs(took_s - until_s - GRACE_S) <= 1
    back = [row["at_ns"] for row in rows(directory, "state") if events["healed"]["at_ns"] < row["at_ns"] < go_on_ns
            and len(row["isr"]) == len(row["replicas"])]  # fmt: skip
    assert back, "the broker was in sync again before the run could heal the fault"
    unfit = [line.text for line in read_verdict(directory).fitness if not line.fit]
    assert ["was not probed for" in text for text in unfit] == [True], unfit
    figure = f"a fault of a run, to last {until_s} s: ended by the kernel after {took_s:.1f} s; {unfit[0]}"
    record_property("figure", f"{figure} Exit 3")


def ended_in_good_order(
    user: User, out: Path, before: Host, ended: str = "interrupted", healed: str = "healed"
) -> Path:
    """Assert that the fault is healed (or reported as not), the journal sealed, nothing judged and nothing left."""
    directory = only_run(out)
    assert read_record(directory).ended == ended
    assert healed in {row["event"] for row in rows(directory, "faults")}
    assert "not judged" in (directory / "report.html").read_text()
    assert list((directory / "journal").glob("*/*.arrows")) == []
    assert user.labs() == []
    assert_clean(user, before)
    return directory


@pytest.mark.proves("A2")
@pytest.mark.parametrize("moment", [pytest.param("serves", marks=pytest.mark.long), "severed"])
def test_a_run_whose_terminal_is_closed_ends_in_good_order(
    us: User, tmp_path: Path, moment: str, before: Host, record_property: Told
) -> None:
    window, terminal = os.openpty()
    run = us.start("run", "acks1-leader-isolated", *SMALL, "--out", str(tmp_path), terminal=terminal)
    os.close(terminal)
    said = b""
    try:
        while moment.encode() not in said:
            said += os.read(window, 65536)
        closed = time.monotonic()
        os.close(window)
        assert run.wait(timeout=15) == 128 + signal.SIGHUP
        took_s = time.monotonic() - closed
    finally:
        run.kill()
        run.wait()
    if moment == "severed":
        ended_in_good_order(us, tmp_path, before)
    assert us.labs() == []
    assert_clean(us, before)
    record_property("figure", f"terminal closed when the run said {moment!r}: exit 129 after {took_s:.1f} s, clean")


@pytest.mark.proves("A2")
def test_a_second_interrupt_ends_a_run_at_once_and_nothing_goes_on(
    us: User, tmp_path: Path, before: Host, record_property: Told
) -> None:
    run = begun(us, tmp_path, "severed")
    directory = only_run(tmp_path)
    flushed, _ = journal_rows(directory)
    run.send_signal(signal.SIGINT)
    wait_until(lambda: read_record(directory).ended == "interrupted", "the first is heard")
    run.send_signal(signal.SIGINT)
    again = time.monotonic()
    _, err = run.communicate(timeout=2)
    took_s = time.monotonic() - again
    assert run.returncode == 130
    assert "Traceback" not in err
    assert_clean(us, before)
    for lab in us.labs():  # its folder stays, like that of a killed run, until a later command removes it
        assert us.run("down", "--name", lab.name).returncode == 0
    assert us.labs() == []
    assert not (directory / "report.html").exists(), (
        "it ended in good order, because the second interrupt came too late"
    )
    left, torn = journal_rows(directory)
    assert flushed
    assert flushed <= left
    record_property(
        "figure", f"second SIGINT: exit 130 after {took_s:.1f} s, {len(left):,} rows readable, {torn} bytes torn, clean"
    )


# When the disk is full, the load has sent none, some or all of 8,000 messages. If it went on, it would send all.
SENT_WHEN = {"network made": range(1), "severed": range(2000, 8000), "judging": range(8000, 8001)}


@pytest.mark.proves("B3")
@pytest.mark.parametrize(
    ("whose", "when"),
    [
        ("runs", "severed"),
        pytest.param("runs", "network made", marks=pytest.mark.long),
        pytest.param("runs", "judging", marks=pytest.mark.long),
        pytest.param("labs", "network made", marks=pytest.mark.long),
        pytest.param("labs", "severed", marks=pytest.mark.long),
    ],
)
def test_a_disk_that_is_full_in_the_middle_of_a_run_ends_the_run_and_loses_no_row(
    us: User, tmp_path: Path, whose: str, when: str, before: Host, record_property: Told
) -> None:
    place = tmp_path if whose == "runs" else us.state / "ackproof"
    place.mkdir(exist_ok=True)
    run = us.start(
        "run", "acks1-leader-isolated", *SMALL, "--out", str(tmp_path), first=lambda: mount_small_disk(place, 65536)
    )
    held = os.open(f"/proc/{run.pid}/root{place}", os.O_RDONLY)  # its disk exists while this process lives
    disk = Path(f"/proc/self/fd/{held}")
    try:
        said_until(run, when)
        directory = only_run(disk if whose == "runs" else tmp_path)
        flushed, _ = journal_rows(directory)
        fill(disk)
        _, err = run.communicate(timeout=120)
        assert run.returncode == 4, err
        said = [line for line in err.splitlines() if line.startswith("ackproof: ")]
        assert [str(place) in line for line in said] == [True], err
        assert ("healed" in err) == (when == "severed")
        left, torn = journal_rows(directory)
        assert flushed <= left
        sent = sent_by_all(directory)
        assert sent in SENT_WHEN[when]
        assert [*disk.glob("labs/*")] == []
        (disk / "filler").unlink()  # the judge seals what is left
        assert told_torn(directory) == torn
    finally:
        os.close(held)
        run.kill()
        run.communicate()
    assert us.labs() == []
    assert_clean(us, before)
    record_property(
        "figure",
        f"disk of the {whose} filled at {when!r}: exit 4, {sent:,} of 8,000 sent, {len(left):,} rows readable, "
        f"{torn} bytes torn",
    )


def sent_by_all(directory: Path) -> int:
    """By the producers' own counters, which take no room: rows are few on a full disk also where the load goes on."""
    return sum(Progress(page).read()["sent"] for page in directory.glob("clients/producer*.progress"))


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(mmap.PAGESIZE)):
            pass


@pytest.mark.proves("A1", "B1")
@pytest.mark.long
def test_a_run_killed_outright_leaves_a_journal_that_can_be_judged(us: User, tmp_path: Path) -> None:
    run = begun(us, tmp_path, "severed")
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=15)
    wait_until(lambda: not us.processes(), "the lab is gone")
    directory = only_run(tmp_path)
    assert list((directory / "journal").glob("sends/*.arrows"))
    judged = us.run("judge", str(directory), "--json", timeout_s=200)
    assert judged.returncode == 3
    told = json.loads(judged.stdout)["runs"][0]
    assert (told["result"], told["sent"] > 1000) == ("unknown", True)
