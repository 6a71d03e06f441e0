"""The verdict depends on what happened, and on nothing else.

It does not depend on the order of rows and files, on names, on when the clock began, nor on where and by whom a run is
judged.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

import ackproof
from ackproof.judge import pipeline as judge_main
from ackproof.judge.engine import large
from ackproof.judge.pipeline import judge
from ackproof.model.checks import CHECKS
from ackproof.model.run_record import Clock, read_record, write_record
from ackproof.model.verdict import WITNESSES_SHOWN, Verdict
from tests.support.asking import session
from tests.support.histories import FIRST_RUN, START, History
from tests.support.oracles import planting
from tests.support.oracles import planting_scenarios as scenarios
from tests.support.oracles.planted import FACTS, WITNESS, finished, legal
from tests.support.oracles.planting import World
from tests.support.proving import size
from tests.support.skips import cannot_run

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
    planting.poll_skip,
    planting.nonmonotonic_poll,
    planting.delivered_twice,
    planting.stale_leader_ack,
    planting.dual_leader,
    planting.watermark_regression,
    planting.unavailable,
    planting.dual_ownership,
    planting.ownership_gap,
    planting.commit_regression,
)


EVERY_KIND = (*planting.ANOMALIES, *scenarios.ANOMALIES)
IN = {**planting.IN, **scenarios.IN}
PLAIN = size(4, 50)
RUNS = PLAIN + size(0, len(EVERY_KIND))
LEGAL = size(1, 100)  # worlds that only look like an anomaly


FAULT = (("asked", 50), ("proved", 51), ("healed", 150))


def made(place: int) -> History:
    return made_world(place).history


def made_world(place: int) -> World:
    """Return the world with this number.

    The first worlds have a fault and some anomalies, each in a partition of its own. After them there is one world for
    each kind of anomaly, with what it needs: transactions, keys, receivers, a mirror, or a move to the mirror.
    """
    lots = Random(place)  # noqa: S311 - the same runs every time
    if place >= PLAIN:
        return made_of(EVERY_KIND[place - PLAIN], FIRST_RUN + place, lots)
    world = World(FIRST_RUN + place, PARTITIONS, 20)
    for partition in lots.sample(range(PARTITIONS), lots.randint(0, PARTITIONS)):
        lots.choice(KINDS)(world, partition, lots.randint(0, 3))
    history = world.finished()
    history.expect = {"lost": lots.choice(["required", "allowed", "forbidden"])}
    history.fault(*FAULT)
    return world


def made_of(plant: planting.Plant, run: int, lots: Random) -> World:
    world = IN.get(plant, World)(run, PARTITIONS, 25)
    if plant is scenarios.held_twice:
        scenarios.tell_of_replicas(world)
    for partition, k in sorted(lots.sample(world.slots, 3)):
        plant(world, partition, k)
    world.finished()
    ask_about_all(world)
    return world


def ask_about_all(world: World) -> None:
    """Let the scenario ask about everything and the journal hold it. The judge is silent about other things."""
    history = world.history
    plans = history.producers or [{"copies": world.partitions}]
    history.producers = [{**plan, "keys": 3} for plan in plans]
    if world.transactional:
        history.stable(0, 0, 0)
    if isinstance(world, scenarios.ReceivedWorld):
        history.cost(100, messages=1, deciding=1, handling=1, memory=1, disk=1)
    if isinstance(world, scenarios.MirroredWorld):
        history.stands(0, 0)
        history.fault(*FAULT)
        history.faults[-1] = msgspec.structs.replace(history.faults[-1], step="move the writers")


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


OTHER_NAMES = {"orders": "a.topic_of-another-name", "payments": "Zahlungen-"}


def renamed(history: History, directory: Path) -> None:
    """Rename every topic wherever its name is: in the scenario, in claims, in the targets of faults."""
    for row in history.rows["faults"]:
        row["asked"] = [in_other_names(each) for each in row["asked"]]
    history.write(directory)
    path = directory / "run.json"
    path.write_text(in_other_names(path.read_text()))


def in_other_names(text: str) -> str:
    for name, other in OTHER_NAMES.items():
        text = text.replace(name, other)
    return text


def renumbered(history: History, directory: Path) -> None:
    """Number the partitions backwards: partition 0 becomes the last one, and so on."""
    for rows in history.rows.values():
        for row in rows:
            if row.get("partition", -1) >= 0:
                row["partition"] = PARTITIONS - 1 - row["partition"]
    for claim in history.claims:
        claim["partitions"] = numbered_back(claim["partitions"])
    history.write(directory)


def numbered_back(value: Any) -> Any:
    """Return the same with each partition of a witness, or of a text, under its other number."""
    if isinstance(value, str):
        return re.sub(r"(?<=orders/)\d+", lambda found: str(PARTITIONS - 1 - int(found[0])), value)
    if isinstance(value, list):
        return [numbered_back(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: PARTITIONS - 1 - each
        if name in ("partition", "partition_before", "only_partition") and isinstance(each, int) and each >= 0
        else numbered_back(each)
        for name, each in value.items()
    }


DURATIONS = ("gap_ns", "took_ns", "deciding_ns", "handling_ns")


def later(history: History, directory: Path) -> None:
    """Move every moment by an hour, as on a machine that has been up for longer."""
    for rows in history.rows.values():
        for row in rows:
            for name in row:
                if name.endswith("_ns") and name not in DURATIONS and row[name] is not None:
                    row[name] += HOUR
    history.write(directory)
    record = read_record(directory)
    assert record.ended_at is not None
    began = Clock(record.began.wall_ns, START + HOUR)
    ended = Clock(record.ended_at.wall_ns, record.ended_at.monotonic_ns + HOUR)
    marks = {name: ns + HOUR for name, ns in msgspec.structs.asdict(record.marks).items() if ns is not None}
    marked = msgspec.structs.replace(record.marks, **marks)
    write_record(directory, msgspec.structs.replace(record, began=began, ended_at=ended, marks=marked))


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


@cache
def verdicts(folder: Path) -> dict[str, list[Verdict]]:
    """Judge every run in every variant, and the legal runs unchanged, all in one call."""
    directories = []
    for way, (name, write) in enumerate(TOLD.items()):
        for place in range(RUNS):
            history = copy.deepcopy(made(place))
            history.run += 1_000 * way  # so that the runs share a job
            directories.append(folder / name.replace(" ", "-") / f"run{place}")
            write(history, directories[-1])
    directories += [world.history.write(folder / "legal" / f"run{place}") for place, world in enumerate(legal_worlds())]
    found = judge(directories, session=session())
    told = {name: found[RUNS * way : RUNS * (way + 1)] for way, name in enumerate(TOLD)}
    return told | {"legal": found[RUNS * len(TOLD) :]}


@cache
def legal_worlds() -> list[World]:
    worlds = copy.deepcopy(finished(legal)[:LEGAL])
    for world in worlds:
        ask_about_all(world)
    return worlds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways")


def plain(verdict: Verdict, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(msgspec.json.encode(verdict))
    return {name: value for name, value in told.items() if name not in but}


def shifted(value: Any, by: int) -> Any:
    """Return the same with each moment of a witness so much earlier."""
    if isinstance(value, dict):
        moments = {name: each - by for name, each in value.items() if name.endswith("_ns") and isinstance(each, int)}
        return {name: shifted(each, by) for name, each in value.items()} | {
            name: moment for name, moment in moments.items() if name not in DURATIONS
        }
    return [shifted(each, by) for each in value] if isinstance(value, list) else value


def figures(verdict: Verdict) -> dict[str, Any]:
    """Return the figures without the partitions' numbers."""
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


def assert_counted(world: World, verdict: Verdict) -> set[str]:
    """Assert that each check finds what was planted, and return the checks that find anything."""
    found = set()
    for line in verdict.checks:
        assert line.broke is None
        if line.name in scenarios.VIEWS:
            continue
        planted = number_of(line.name, world)
        if line.found is None and line.name != "failover":  # which needs to be told who leads
            assert planted == 0, (world.run, line.name, line.text)
        if line.found is not None and (planted or line.name != "allocation"):  # without, few tell who holds what
            assert line.found == planted, (world.run, line.name, world.expected)
        if line.found:
            found.add(line.name)
    return found


def number_of(check: str, world: World) -> int:
    """Return the number of witnesses that must be found; each fault has one at each partition."""
    if check == "failover":
        return len(world.history.faults) * len(world.history.complete()["ends"])
    column, unknown = CHECKS[check].inconclusive_when or (None, None)
    told = (dict(zip(WITNESS[check], witness, strict=True)) for witness in world.expected[check])
    return sum(column is None or witness[column] != unknown for witness in told)


@pytest.mark.proves("C4")
def test_the_verdict_counts_what_was_planted(folder: Path, record_property: Told) -> None:
    found = set[str]()
    for place, verdict in enumerate(verdicts(folder)["as it is"]):
        found |= assert_counted(made_world(place), verdict)
    assert found >= size({"lost", "reordered"}, set(WITNESS))
    record_property("figure", f"{RUNS} whole verdicts count what was planted, by {len(found)} checks")


@pytest.mark.proves("C4")
def test_legal_look_alikes_refute_nothing(folder: Path, record_property: Told) -> None:
    for world, verdict in zip(legal_worlds(), verdicts(folder)["legal"], strict=True):
        assert assert_counted(world, verdict) <= {*FACTS, "failover"}
        assert verdict.result == "confirmed", verdict.sentence
    record_property("figure", f"{LEGAL} whole verdicts of what only looks like an anomaly: all confirmed")


@pytest.mark.proves("C4")
@pytest.mark.parametrize("way", ["shuffled", "split"])
def test_rows_and_files_may_come_in_any_order(folder: Path, way: str, record_property: Told) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)[way], strict=True):
        assert own.fitness == other.fitness
        assert plain(own) == plain(other)
    record_property("figure", f"{RUNS} runs told in {len(TOLD) - 1} other ways: the same verdicts")


@pytest.mark.proves("C3")
@pytest.mark.timeout(size(300, 3600))
def test_a_folded_journal_gives_the_same_verdict(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Told
) -> None:
    """Small runs are judged here like large ones, from the first step to the last."""
    in_full = verdicts(folder)["as it is"][:PLAIN]
    folded: list[bool] = []

    def looking(*given: Any) -> Any:
        found = large.look(*given)
        folded.append(found is not None)
        return found

    monkeypatch.setattr(judge_main, "NARROW_ROWS", 0)
    monkeypatch.setattr(judge_main, "look", looking)
    directories = [tmp_path / f"run{place}" for place in range(PLAIN)]
    for place, directory in enumerate(directories):
        made(place).write(directory)
    for own, other in zip(in_full, judge(directories, session=session()), strict=True):
        assert plain(own) == plain(other)
    assert folded == [True] * PLAIN
    record_property("figure", f"{PLAIN} runs of all kinds of evidence folded: the same verdicts, whole")


@pytest.mark.proves("C4")
def test_a_topic_of_another_name_is_the_same_topic(folder: Path) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)["renamed"], strict=True):
        text = msgspec.json.encode(other).decode()
        assert "orders" not in text
        for name, another in OTHER_NAMES.items():
            text = text.replace(another, name)
        assert json.loads(text) == plain(own)


@pytest.mark.proves("C4")
def test_partitions_with_other_numbers_give_the_same_figures_and_the_same_witnesses(
    folder: Path, record_property: Told
) -> None:
    """The placement of replicas is left out, because its rule goes from one partition to the next."""
    compared = 0
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)["renumbered"], strict=True):
        told = any(line.name == "allocation" and line.found for line in (*own.checks, *other.checks))
        but = ("allocation", "result", "sentence") if told else ()
        assert without(figures(own), but) == without(figures(other), but)
        for one, another in zip(own.checks, other.checks, strict=True):
            if one.name != "allocation" and len(one.witnesses) < WITNESSES_SHOWN:
                back = numbered_back(json.loads(msgspec.json.encode(another.witnesses)))
                assert in_order(one.witnesses) == in_order(back), one.name
                compared += len(one.witnesses)
    assert compared
    record_property("figure", f"{compared:,} witnesses of {RUNS} runs: the same with partitions of other numbers")


def in_order(witnesses: Sequence[dict[str, Any]]) -> list[str]:
    """Of what stands in several partitions a witness names the places in those of the lowest and of the highest number,
    which may be others."""
    left_out = {True: ("partition", "first_offset", "last_offset"), False: ()}
    return sorted(repr(without(witness, left_out[witness.get("partitions", 1) != 1])) for witness in witnesses)


def without(told: dict[str, Any], but: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in but}


@pytest.mark.proves("C4")
def test_an_earlier_start_of_the_clock_moves_every_moment_and_changes_nothing_else(folder: Path) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)["later"], strict=True):
        assert shifted(plain(other), HOUR) == plain(own)


@pytest.mark.proves("B5")
@pytest.mark.parametrize("way", ["wall clock forward", "wall clock back"])
def test_a_wall_clock_that_was_set_is_only_a_remark(folder: Path, way: str, record_property: Told) -> None:
    for own, other in zip(verdicts(folder)["as it is"], verdicts(folder)[way], strict=True):
        assert plain(own, but=("fitness",)) == plain(other, but=("fitness",))
        (remark,) = [line for line in other.fitness if line.name == "clocks"]
        assert remark.fit
        assert "wall clock moved" in remark.text
        assert all(figure >= 0 for basis in other.latency_ms.values() for figure in basis.values())
    record_property("figure", f"{RUNS} runs with the wall clock set by an hour, forward and back: the same verdicts")


def test_these_runs_have_witnesses_of_every_kind(folder: Path) -> None:
    assert {verdict.result for verdict in verdicts(folder)["as it is"]} >= {"confirmed", "refuted"}
    found = {check.name for verdict in verdicts(folder)["as it is"] for check in verdict.checks if check.found}
    assert len(found) > 8


JUDGE = """
import sys
from pathlib import Path
from ackproof.judge.pipeline import judge

judge([Path(each) for each in sys.argv[1:]], "local[1]")
"""
ANOTHER_UID = 65534


def as_another_user(environment: dict[str, str], *program: str) -> subprocess.CompletedProcess[str]:
    """Judge as another user, with a Python that this user can run."""
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
                timeout=size(250, 1000),
            )
    return cannot_run(f"no {version} that another user can run")


@pytest.fixture
def somewhere_else() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ackproof-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def verdict_files(directory: Path) -> dict[str, bytes]:
    """Return all files of the verdict, with the witnesses of each check."""
    folder = directory / "verdict"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


RECORDED = sorted((Path(__file__).parents[1] / "recorded" / "runs").iterdir())


@pytest.mark.proves("G3")
@pytest.mark.timeout(size(300, 1200))
def test_another_user_in_another_place_gets_the_same_verdict_byte_for_byte(
    tmp_path: Path, somewhere_else: Path, record_property: Told
) -> None:
    if os.getuid() != 0:
        cannot_run("only root can become another user")
    here, there, home = tmp_path / "runs", somewhere_else / "runs", somewhere_else / "home"
    for place in range(size(1, RUNS)):
        made(place).write(here / f"made{place}")
    for recorded in size([], RECORDED):
        shutil.copytree(recorded, here / recorded.name)
    home.mkdir()
    shutil.copytree(here, there)
    for path in (home, there, *there.rglob("*")):
        os.chown(path, ANOTHER_UID, ANOTHER_UID)
    names = sorted(path.name for path in here.iterdir())
    judge([here / name for name in names], session=session())
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    done = as_another_user(environment, JUDGE, *(str(there / name) for name in names))
    assert done.returncode == 0, done.stderr
    files = 0
    for name in names:
        own, other = verdict_files(here / name), verdict_files(there / name)
        assert own.keys() == other.keys()
        assert [path for path in own if own[path] != other[path]] == []
        assert (there / name / "verdict" / "verdict.json").stat().st_uid == ANOTHER_UID
        files += len(own)
    assert files > len(names), "none of them has a witness"
    record_property(
        "figure",
        f"{files} files of the verdicts of {len(names)} runs: the same bytes by another user, in another place, locale "
        "and time zone",
    )
