"""Whole runs: from a scenario to a verdict, interrupted, and killed in the middle."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from real_lab import User, journal_rows, ourselves, wait_until

from ackproof.journal import sealed_files
from ackproof.record import read_record
from small_disk import mount_small_disk

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SMALL = ("--set", "producer.count=8000", "--set", "producer.rate=1000", "--set", "faults.0.at_messages=2000")


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


def begun(us: User, out: Path, until: str) -> subprocess.Popen[str]:
    """A run that has come so far that it says this."""
    run = us.start("run", "acks1-leader-isolated", *SMALL, "--out", str(out))
    assert run.stderr is not None
    for line in run.stderr:
        if until in line:
            return run
    raise AssertionError(f"the run never said {until!r}")


def only_run(out: Path) -> Path:
    (directory,) = out.iterdir()
    return directory


def labs_left(us: User) -> list[Path]:
    return list((us.state / "ackproof" / "labs").glob("*"))


@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_an_isolated_leader_with_acks_1_loses_what_it_acknowledged(us: User, tmp_path: Path, mode: str) -> None:
    done = us.run(
        "run", "acks1-leader-isolated", *SMALL, "--mode", mode, "--out", str(tmp_path), "--json", timeout_s=280
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    assert (told["result"], told["sent"], told["acked"]) == ("confirmed", 8000, 8000)
    assert told["lost"] == told["acked"] - told["high_watermark"] > 1000
    assert told["faults"] == [{"kind": "isolate", "targets": told["faults"][0]["targets"], "proved": True}]
    assert sum(told["fates"].values()) == told["sent"]
    page = Path(told["report"]).read_text()
    assert "Confirmed" in page
    assert labs_left(us) == []


def test_without_acknowledgements_there_are_no_offsets_and_what_was_killed_is_noted(us: User, tmp_path: Path) -> None:
    done = us.run("run", "acks0-leader-killed", *SMALL, "--out", str(tmp_path), "--json", timeout_s=280)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["runs"][0]
    assert {name for name, count in told["fates"].items() if count} <= {"survived", "lost_unplaced", "rejected"}
    (broker,) = told["faults"][0]["targets"]
    directory = only_run(tmp_path)
    ended = {row["node"]: row for row in rows(directory, "nodes")}
    assert (ended[broker]["signal"], ended[broker]["by_itself"]) == (signal.SIGKILL, False)
    assert ended["producer1"]["code"] == 0
    assert {row["offset"] for row in rows(directory, "sends")} == {None}
    assert max(row["used"] or 0 for row in rows(directory, "blocks")) == 8000


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    files = sealed_files(directory, table)
    return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]


@pytest.mark.proves("A2")
def test_an_interrupted_run_heals_seals_and_says_that_it_was_not_judged(us: User, tmp_path: Path) -> None:
    run = begun(us, tmp_path, "severed")
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=15)
    assert run.returncode == 130
    assert "healed" in err
    assert "not judged" in out
    directory = ended_in_good_order(us, tmp_path)
    judged = us.run("judge", str(directory), "--json", timeout_s=200)
    assert judged.returncode == 3
    assert json.loads(judged.stdout)["runs"][0]["result"] == "unknown"


def ended_in_good_order(us: User, out: Path) -> Path:
    """Healed, sealed, a page that says that nothing was judged, and nothing left."""
    directory = only_run(out)
    assert read_record(directory).ended == "interrupted"
    assert "healed" in {row["event"] for row in rows(directory, "faults")}
    assert "not judged" in (directory / "report.html").read_text()
    assert list((directory / "journal").glob("*/*.arrows")) == []
    assert labs_left(us) == []
    wait_until(lambda: not us.processes() and not us.temporary_files(), "nothing is left")
    return directory


@pytest.mark.proves("A2")
@pytest.mark.long
@pytest.mark.parametrize("moment", ["serves", "severed"])
def test_a_run_whose_terminal_is_closed_ends_in_good_order(
    us: User, tmp_path: Path, moment: str, record_property: Callable[[str, object], None]
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
        ended_in_good_order(us, tmp_path)
    assert labs_left(us) == []
    wait_until(lambda: not us.processes() and not us.temporary_files(), "nothing is left")
    record_property("figure", f"terminal closed when the run said {moment!r}: exit 129 after {took_s:.1f} s, clean")


@pytest.mark.proves("A2")
def test_a_second_interrupt_ends_a_run_at_once_and_nothing_goes_on(us: User, tmp_path: Path) -> None:
    run = begun(us, tmp_path, "severed")

    def interrupted() -> bool:
        run.send_signal(signal.SIGINT)
        return run.poll() is not None

    wait_until(interrupted, "it has ended")
    run.communicate(timeout=5)
    assert run.returncode == 130
    wait_until(
        lambda: not any((lab / "control.sock").exists() and _held(lab) for lab in labs_left(us)), "the lab is gone"
    )
    assert list(only_run(tmp_path).glob("journal/sends/*"))


@pytest.mark.proves("B3")
def test_a_disk_that_is_full_while_the_load_runs_ends_the_run_and_takes_no_row_from_it(
    us: User, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run = us.start(
        "run", "acks1-leader-isolated", *SMALL, "--out", str(tmp_path), first=lambda: mount_small_disk(tmp_path, 65536)
    )
    held = os.open(f"/proc/{run.pid}/root{tmp_path}", os.O_RDONLY)  # its disk stays as long as this
    disk = Path(f"/proc/self/fd/{held}")
    try:
        assert run.stderr is not None
        assert any("severed" in line for line in run.stderr)
        directory = only_run(disk)
        flushed, _ = journal_rows(directory)
        fill(disk)
        _, err = run.communicate(timeout=60)
        assert run.returncode == 4, err
        said = [line for line in err.splitlines() if line.startswith("ackproof: ")]
        assert [str(tmp_path) in line for line in said] == [True], err
        assert "healed" in err
        left, torn = journal_rows(directory)
        assert flushed <= left
    finally:
        os.close(held)
        run.kill()
        run.communicate()
    assert labs_left(us) == []
    wait_until(lambda: not us.processes() and not us.temporary_files(), "nothing is left")
    record_property("figure", f"disk filled under load: exit 4, {len(left):,} rows readable, {torn} bytes torn")


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(mmap.PAGESIZE)):
            pass


@pytest.mark.proves("A1", "B1")
def test_a_run_killed_outright_leaves_a_journal_that_can_be_judged(us: User, tmp_path: Path) -> None:
    run = begun(us, tmp_path, "severed")
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=15)
    wait_until(
        lambda: not any((lab / "control.sock").exists() and _held(lab) for lab in labs_left(us)), "the lab is gone"
    )
    directory = only_run(tmp_path)
    assert list((directory / "journal").glob("sends/*.arrows"))
    judged = us.run("judge", str(directory), "--json", timeout_s=200)
    assert judged.returncode == 3
    told = json.loads(judged.stdout)["runs"][0]
    assert (told["result"], told["sent"] > 1000) == ("unknown", True)


def _held(lab: Path) -> bool:
    from ackproof.lab.directory import LabDirectory

    return LabDirectory(lab).alive()
