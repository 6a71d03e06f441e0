"""A disk that is full at each write, sync and rename in turn.

Existing files stay, a new file is there as a whole or not at all, and the message names the path.
"""

from __future__ import annotations

import errno
import io
import json
import mmap
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from ackproof.api import judge as api_judge
from ackproof.core.errors import CannotHere
from ackproof.journal.files import STREAM_SUFFIX, sealed_files
from ackproof.journal.stream import read_stream
from ackproof.journal.writer import Writer
from ackproof.judge import pipeline
from ackproof.judge import worker as judging
from ackproof.judge.verdict_builder import write_verdict
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory
from ackproof.model.run_record import RunRecord, read_record, write_record
from ackproof.model.verdict import Verdict, read_verdict
from ackproof.report import write_report
from ackproof.run import execution as running
from tests.support.command_line import Run, run, state
from tests.support.lab_network import in_a_child
from tests.support.made_story import SHAPES
from tests.support.make_run import make_run
from tests.support.proving import size
from tests.support.small_disk import mount_small_disk

__all__ = ["run", "state"]  # fixtures

Told = Callable[[str, object], None]
OPEN = io.open


class Disk:
    """Full at one step, and from there on if it `stays` so. Python names the file of a rename, and not of a write."""

    def __init__(self, full_at: int, stays: bool) -> None:
        self.steps = 0
        self._full = range(full_at, sys.maxsize if stays else full_at + 1)

    def step(self, path: object = None) -> None:
        self.steps += 1
        if self.steps in self._full:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def before(self, work: Callable[..., Any], named: bool) -> Callable[..., Any]:
        def working(*given: Any, **more: Any) -> Any:
            self.step(os.fspath(given[0]) if named else None)
            return work(*given, **more)

        return working

    def open(self, file: Any, mode: str = "r", *given: Any, **more: Any) -> Any:
        disk = self

        class Written(io.BufferedWriter):
            def write(self, content: Any) -> int:
                disk.step()
                return super().write(content)

        if mode not in ("wb", "xb"):
            return OPEN(file, mode, *given, **more)
        return Written(io.FileIO(file, mode[0]))


@contextmanager
def full(full_at: int, stays: bool = False) -> Iterator[Disk]:
    disk = Disk(full_at, stays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", disk.open)
        patch.setattr(os, "fsync", disk.before(os.fsync, named=False))
        patch.setattr(pq.ParquetWriter, "write_table", disk.before(pq.ParquetWriter.write_table, named=False))
        for name in ("mkdir", "rename", "replace"):
            patch.setattr(os, name, disk.before(getattr(os, name), named=True))
        yield disk


def each_step(work: Callable[[], object]) -> Iterator[tuple[int, bool]]:
    """Yield every step, for a disk that is full once and for one that stays full. The caller repeats the work."""
    with full(0) as disk:
        work()
    assert disk.steps
    for stays in (False, True):
        for number in range(1, disk.steps + 1):
            yield number, stays


def problem_of(work: Callable[..., object], *given: object) -> Exception | None:
    try:
        work(*given)
    except (OSError, CannotHere) as problem:
        return problem
    return None


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = make_run(tmp_path / "runs", SHAPES["small"])
    write_report(made)
    return made


def another(directory: Path) -> tuple[RunRecord, Verdict]:
    record = msgspec.structs.replace(read_record(directory), title="another")
    return record, msgspec.structs.replace(read_verdict(directory), sentence="another")


def stands(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


@pytest.mark.proves("B3")
@pytest.mark.parametrize("what", ["record", "verdict", "report"])
def test_a_file_is_replaced_as_a_whole_or_not_at_all_and_the_message_names_it(
    what: str, directory: Path, tmp_path: Path, record_property: Told
) -> None:
    record, verdict = another(directory)
    work: dict[str, Callable[[Path], object]] = {
        "record": lambda path: write_record(path, record),
        "verdict": lambda path: write_verdict(path, verdict, None),
        "report": write_report,
    }
    old, places = stands(directory), 0
    whole = shutil.copytree(directory, tmp_path / "whole")
    for number, stays in each_step(lambda: work[what](whole)):
        copy = shutil.copytree(directory, tmp_path / f"{number}{stays}")
        with full(number, stays), pytest.raises(OSError, match="No space left") as problem:
            work[what](copy)
        assert str(copy) in str(problem.value.filename)
        if what == "verdict" and stays:  # the old content could not be moved back, and is beside its place
            for path in copy.glob(".verdict-old"):
                path.rename(copy / "verdict")
        assert stands(copy) == old
        places += 1
    record_property("figure", f"{what}: disk full at each of {places} steps, the old one stands, its path is named")


@pytest.mark.proves("B3")
def test_a_report_without_room_ends_with_4_and_names_the_path(run: Run, directory: Path) -> None:
    page = (directory / "report.html").read_bytes()
    for number, stays in each_step(lambda: write_report(directory)):
        with full(number, stays):
            code, out, err = run("report", str(directory))
        assert (code, out, err.count("\n")) == (4, "", 1)
        assert "no space is left" in err
        assert str(directory) in err
        assert (directory / "report.html").read_bytes() == page


@pytest.mark.proves("B3")
def test_a_verdict_stays_if_its_report_has_no_room(run: Run, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Judged:
        def __init__(self, *_: object, **__: object) -> None: ...

        def judge(self, *_: object) -> list[Verdict]:
            return [read_verdict(directory)]

        def close(self) -> None: ...

    monkeypatch.setattr(api_judge, "Judging", Judged)
    for number, stays in each_step(lambda: write_report(directory)):
        with full(number, stays):
            code, out, err = run("judge", str(directory), "--json")
        assert code == 0
        assert json.loads(out)["runs"][0]["report"] is None
        assert "the report could not be written" in err
        assert str(directory) in err


@pytest.mark.proves("B3")
def test_a_judge_without_room_for_its_verdict_names_the_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], directory: Path
) -> None:
    _, verdict = another(directory)

    def judge(directories: list[Path], **_: object) -> list[Verdict]:
        return [write_verdict(path, verdict, None) for path in directories]

    monkeypatch.setattr(pipeline, "judge", judge)
    asked = json.dumps({"directories": [str(directory)], "kafka": None})
    old = read_verdict(directory)
    for number, stays in each_step(lambda: write_verdict(directory, old, None)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{asked}\n"))
        with full(number, stays):
            judging._serve("local[1]", early=False, large=False, consumers=False, connector=False)
        told = json.loads(capsys.readouterr().out)
        assert "no space is left" in told["problem"]
        assert str(directory) in told["problem"]
        write_verdict(directory, old, None)


@pytest.mark.proves("B3")
def test_a_run_whose_journal_cannot_be_sealed_names_its_directory_and_keeps_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Told
) -> None:
    monkeypatch.setattr(LabDirectory, "alive", lambda _: True)

    def journal(directory: Path) -> Any:
        for name in ("one", "two"):
            writer = Writer(directory, "probes", 1, name)
            for number in range(5):
                writer.add(fault=1, at_ns=number, held=True, text=name)
            writer.close(seal=False)
        record = read_record(made)
        return SimpleNamespace(
            directory=directory, lab="x", close=lambda: None, note=lambda **_: write_record(directory, record)
        )

    def rows(directory: Path) -> Counter[str]:
        sealed = sealed_files(directory, "probes")
        streams = (directory / "journal" / "probes").glob(f"*{STREAM_SUFFIX}")
        tables = [pq.read_table(path) for path in sealed]
        tables += [read_stream(path)[0] for path in streams if path.with_suffix(".parquet") not in sealed]
        return Counter(text for table in tables for text in table["text"].to_pylist())

    made = make_run(tmp_path / "made", SHAPES["small"])
    ended, whole = Counter[str](), journal(tmp_path / "whole")
    for number, stays in each_step(lambda: running._put_away(whole)):
        place = tmp_path / f"{number}{stays}"
        asked = journal(place)
        with full(number, stays):
            told = problem_of(running._put_away, asked)
        ended["told" if told else "sealed"] += 1  # without room small files are not merged
        assert told is None or str(told).startswith(f"no space is left on the disk of {place}")
        assert rows(place) == Counter(one=5, two=5), (number, stays)
        assert not list(place.glob("journal/*/.*")), "an unfinished file is left"
    assert ended["told"] > ended["sealed"] > 0
    record_property("figure", f"sealing: disk full at each of {ended.total()} steps, no row lost, the directory named")


@pytest.mark.proves("B3")
def test_on_a_real_full_disk_existing_files_stay(tmp_path: Path, record_property: Told) -> None:
    made = make_run(tmp_path / "made", SHAPES["small"])
    write_report(made)
    record, verdict = another(made)
    disk = tmp_path / "disk"
    disk.mkdir()

    def work() -> Counter[str]:
        mount_small_disk(disk, 2048)
        copy, ended = shutil.copytree(made, disk / "run"), Counter[str]()
        old = stands(copy)
        for pages in range(0, 100, size(9, 1)):
            for name, write in (
                ("record", lambda: write_record(copy, record)),
                ("verdict", lambda: write_verdict(copy, verdict, None)),
                ("report", lambda: write_report(copy)),
            ):
                room = shutil.disk_usage(disk).free - pages * mmap.PAGESIZE
                with (disk / "filler").open("wb") as filler:
                    os.posix_fallocate(filler.fileno(), 0, room)
                problem = problem_of(write)
                if isinstance(problem, OSError):
                    assert (problem.errno, str(copy) in str(problem.filename)) == (errno.ENOSPC, True)
                    assert stands(copy) == old
                ended[f"{name} {'refused' if problem else 'written'}"] += 1
                (disk / "filler").unlink()
                shutil.rmtree(copy)
                shutil.copytree(made, copy)
        return ended

    ended = in_a_child(work)
    if isinstance(ended, BaseException):
        raise ended
    assert set(ended) == {f"{name} {end}" for name in ("record", "verdict", "report") for end in ("written", "refused")}
    refused = sum(count for end, count in ended.items() if end.endswith("refused"))
    record_property(
        "figure", f"a real disk, full at {refused} places of record, verdict and report: the old one stands"
    )


# -- the lab's trail -------------------------------------------------------------------------------------------------


@pytest.mark.proves("B3")
def test_an_audit_log_on_a_full_disk_stops_no_command_and_loses_no_event(tmp_path: Path) -> None:
    def work() -> list[int]:
        mount_small_disk(tmp_path, 64)
        trail = Events(tmp_path / "events.jsonl")
        with (tmp_path / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(tmp_path).free - 2 * mmap.PAGESIZE)
        for number in range(100):
            trail.add("held", number=number, proof="x" * 150)
        in_between = len(trail.read())
        (tmp_path / "filler").unlink()
        trail.add("healed", number=100)
        return [in_between, *(event["number"] for event in trail.read())]

    found = in_a_child(work)
    if isinstance(found, BaseException):
        raise found
    in_between, *numbers = found
    assert 0 < in_between < 100, "the disk was full in the middle of it"
    assert numbers == list(range(101))
