"""The verdict is of what happened: not of the order of rows and files, of names, of when the clock began, nor of where
and by whom it is judged."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import planting
import pyarrow.parquet as pq
import pytest
from asking import session
from histories import FIRST_RUN, START, History
from planting import World

import ackproof
from ackproof.judge import judge, large
from ackproof.judge import main as judge_main
from ackproof.record import Clock, read_record, write_record
from ackproof.verdict import Verdict
from conftest import cannot_run
from proving import size

Told = Callable[[str, object], None]
HOUR = 3_600 * 10**9
PARTITIONS = 6
KINDS = (
    planting.lost_overwritten,
    planting.lost_truncated,
    planting.duplicated,
    planting.reordered,
    planting.inconsistent_offset,
    planting.unstable_read,
    planting.phantom,
    planting.resurrected,
    planting.realtime_order,
    planting.skipped_read,
    planting.repeated_read,
    planting.delivered_twice,
    planting.zombie_ack,
    planting.dual_leader,
    planting.watermark_fell,
    planting.unavailable,
    planting.two_owners,
    planting.unowned,
    planting.commit_back,
)


def made(place: int) -> History:
    """A run with a fault, and a handful of anomalies, each in a partition of its own."""
    lots = Random(place)  # noqa: S311 - the same runs every time
    world = World(FIRST_RUN + place, PARTITIONS, 20)
    for partition in lots.sample(range(PARTITIONS), lots.randint(0, PARTITIONS)):
        lots.choice(KINDS)(world, partition, lots.randint(0, 3))
    history = world.finished()
    history.expect = {"lost": lots.choice(["required", "allowed", "forbidden"])}
    return history.fault(("asked", 50), ("proved", 51), ("healed", 150))


# -- the same run, told otherwise ------------------------------------------------------------------------------------


def as_it_is(history: History, directory: Path) -> None:
    history.write(directory)


def shuffled(history: History, directory: Path) -> None:
    history.write(directory)
    lots = Random(3)  # noqa: S311
    for path in (directory / "journal").glob("*/*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.take(lots.sample(range(table.num_rows), table.num_rows)), path)


def split(history: History, directory: Path) -> None:
    history.write(directory)
    for path in sorted((directory / "journal").glob("*/*.parquet")):
        table = pq.read_table(path)
        third = table.num_rows // 3 + 1
        for place, name in enumerate(("writer.2", "another", "zz")):
            pq.write_table(table.slice(place * third, third), path.with_name(f"{name}.parquet"))
        path.unlink()


def renamed(history: History, directory: Path) -> None:
    history.topics = ("a.topic_of-another-name",)
    history.write(directory)


def renumbered(history: History, directory: Path) -> None:
    """Partition 0 is the last one, and so on."""
    for rows in history.rows.values():
        for row in rows:
            if row.get("partition", -1) >= 0:
                row["partition"] = PARTITIONS - 1 - row["partition"]
    history.write(directory)


def later(history: History, directory: Path) -> None:
    """On a machine that has been up for an hour longer."""
    for rows in history.rows.values():
        for row in rows:
            for name in row:
                if name.endswith("_ns") and name != "took_ns" and row[name] is not None:
                    row[name] += HOUR
    history.write(directory)
    record = read_record(directory)
    assert record.ended_at is not None
    began = Clock(record.began.wall_ns, START + HOUR)
    ended = Clock(record.ended_at.wall_ns, record.ended_at.monotonic_ns + HOUR)
    write_record(directory, msgspec.structs.replace(record, began=began, ended_at=ended))


def with_the_wall_clock_set(by: int) -> Callable[[History, Path], None]:
    def write(history: History, directory: Path) -> None:
        history.write(directory)
        record = read_record(directory)
        assert record.ended_at is not None
        ended = Clock(record.ended_at.wall_ns + by, record.ended_at.monotonic_ns)
        write_record(directory, msgspec.structs.replace(record, ended_at=ended))

    return write


TOLD: dict[str, Callable[[History, Path], None]] = {
    "as it is": as_it_is,
    "shuffled": shuffled,
    "split": split,
    "renamed": renamed,
    "renumbered": renumbered,
    "later": later,
    "wall clock forward": with_the_wall_clock_set(HOUR),
    "wall clock back": with_the_wall_clock_set(-HOUR),
}
RUNS = size(4, 50)


@cache
def verdicts(folder: Path) -> dict[str, list[Verdict]]:
    """Every run in every way, all of them in one call."""
    directories = []
    for way, (name, write) in enumerate(TOLD.items()):
        for place in range(RUNS):
            history = copy.deepcopy(made(place))
            history.run += 1_000 * way  # so that they share a job
            directories.append(folder / name.replace(" ", "-") / f"run{place}")
            write(history, directories[-1])
    found = judge(directories, session=session())
    return {name: found[RUNS * way : RUNS * (way + 1)] for way, name in enumerate(TOLD)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways")


def plain(verdict: Verdict, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(msgspec.json.encode(verdict))
    return {name: value for name, value in told.items() if name not in but}


def shifted(value: Any, by: int) -> Any:
    """The same with each moment of a witness so much earlier."""
    if isinstance(value, dict):
        moments = {name: each - by for name, each in value.items() if name.endswith("_ns") and isinstance(each, int)}
        return {name: shifted(each, by) for name, each in value.items()} | {
            name: moment for name, moment in moments.items() if name not in ("gap_ns", "took_ns")
        }
    return [shifted(each, by) for each in value] if isinstance(value, list) else value


def figures(verdict: Verdict) -> dict[str, Any]:
    """What is left of it without the partitions' numbers."""
    counted = (
        "result",
        "sentence",
        "sent",
        "acked",
        "failed",
        "unknown",
        "high_watermark",
        "lost",
        "fates",
        "identity",
    )
    told = plain(verdict)
    return {name: told[name] for name in counted} | {check.name: check.found for check in verdict.checks}


@pytest.mark.proves("C4")
@pytest.mark.parametrize("way", ["shuffled", "split"])
def test_rows_and_files_may_come_in_any_order(folder: Path, way: str, record_property: Told) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)[way], strict=True):
        assert own.fitness == other.fitness
        assert plain(own) == plain(other)
    record_property("figure", f"{RUNS} runs told in {len(TOLD) - 1} other ways: the same verdicts")


@pytest.mark.proves("C3")
@pytest.mark.timeout(size(300, 3600))
def test_what_is_folded_gives_the_same_verdict(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Told
) -> None:
    """However small a run is: as a large one is judged, from the first step to the last."""
    in_full = verdicts(folder)["as it is"]
    folded: list[bool] = []

    def looking(*given: Any) -> Any:
        found = large.look(*given)
        folded.append(found is not None)
        return found

    monkeypatch.setattr(judge_main, "NARROW_ROWS", 0)
    monkeypatch.setattr(judge_main, "look", looking)
    directories = [tmp_path / f"run{place}" for place in range(RUNS)]
    for place, directory in enumerate(directories):
        made(place).write(directory)
    for own, other in zip(in_full, judge(directories, session=session()), strict=True):
        assert plain(own) == plain(other)
    assert folded == [True] * RUNS
    record_property("figure", f"{RUNS} runs of all kinds of evidence folded: the same verdicts, whole")


@pytest.mark.proves("C4")
def test_a_topic_of_another_name_is_the_same_topic(folder: Path) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)["renamed"], strict=True):
        text = msgspec.json.encode(other).decode().replace("a.topic_of-another-name", "orders")
        assert json.loads(text) == plain(own)


@pytest.mark.proves("C4")
def test_partitions_of_other_numbers_give_the_same_figures(folder: Path) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)["renumbered"], strict=True):
        assert figures(own) == figures(other)


@pytest.mark.proves("C4")
def test_a_clock_that_began_earlier_moves_every_moment_and_nothing_else(folder: Path) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)["later"], strict=True):
        assert shifted(plain(other), HOUR) == plain(own)


@pytest.mark.proves("B5")
@pytest.mark.parametrize("way", ["wall clock forward", "wall clock back"])
def test_a_wall_clock_that_was_set_is_a_remark_and_changes_nothing(
    folder: Path, way: str, record_property: Told
) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)[way], strict=True):
        assert plain(own, but=("fitness",)) == plain(other, but=("fitness",))
        (remark,) = [line for line in other.fitness if line.name == "clocks"]
        assert remark.fit
        assert "wall clock moved" in remark.text
        assert all(figure >= 0 for basis in other.latency_ms.values() for figure in basis.values())
    record_property("figure", f"{RUNS} runs with the wall clock set by an hour, forward and back: the same verdicts")


def test_they_are_evidence_of_all_kinds(folder: Path) -> None:
    assert {verdict.result for verdict in verdicts(folder)["as it is"]} >= {"confirmed", "refuted"}
    found = {check.name for verdict in verdicts(folder)["as it is"] for check in verdict.checks if check.found}
    assert len(found) > 8


JUDGE = "import sys; from pathlib import Path; from ackproof.judge import judge; judge([Path(sys.argv[1])], 'local[1]')"
ANOTHER_UID = 65534


def by_somebody_else(environment: dict[str, str], *program: str) -> subprocess.CompletedProcess[str]:
    """By another user, with a Python that is in its reach."""
    paths = [sysconfig.get_path("purelib"), str(Path(ackproof.__file__).parents[1])]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        with suppress(PermissionError, FileNotFoundError):
            return subprocess.run(
                [python, "-P", "-c", *program],
                env={**environment, "PYTHONPATH": ":".join(paths)},
                user=ANOTHER_UID,
                group=ANOTHER_UID,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
                timeout=110,
            )
    return cannot_run(f"no {version} that another user can run")


@pytest.fixture
def somewhere_else() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ackproof-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.proves("G3")
def test_judged_elsewhere_by_somebody_else_it_is_the_same_byte_for_byte(
    tmp_path: Path, somewhere_else: Path, record_property: Told
) -> None:
    if os.getuid() != 0:
        cannot_run("only root can become somebody else")
    here, there = tmp_path / "run0", somewhere_else / "run0"
    made(0).write(here)
    shutil.copytree(here, there)
    for path in (there, *there.rglob("*")):
        os.chown(path, ANOTHER_UID, ANOTHER_UID)
    judge([here], session=session())
    home = there / "home"
    home.mkdir()
    os.chown(home, ANOTHER_UID, ANOTHER_UID)
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    done = by_somebody_else(environment, JUDGE, str(there))
    assert done.returncode == 0, done.stderr
    assert (here / "verdict" / "verdict.json").read_bytes() == (there / "verdict" / "verdict.json").read_bytes()
    assert (there / "verdict" / "verdict.json").stat().st_uid == ANOTHER_UID
    record_property("figure", "the same bytes by another user, in another place, locale and time zone")
