"""A run directory may come from a stranger. It may hold any links: nothing is written outside of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.journal.writer import Writer
from ackproof.judge.run_source import opened
from ackproof.judge.verdict_builder import write_verdict
from ackproof.model.run_record import read_record, write_record
from ackproof.model.verdict import Fitness, not_judged
from ackproof.report import write_report
from tests.support.histories import History

Told = Callable[[str, object], None]


def a_run(directory: Path) -> Path:
    history = History()
    for seq in range(5):
        history.send(seq, seq).log(seq, seq)
    history.write(directory)
    writer = Writer(directory, "probes", 7, "killed")
    writer.add(fault=1, at_ns=1, held=True, text="a proof")
    writer.close(seal=False)
    return directory


def contents(directory: Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in directory.rglob("*")
    }


def to_a_file(run: Path, outside: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside / "file")


def to_a_folder(run: Path, outside: Path, name: str) -> None:
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    (run / name).symlink_to(outside / "folder")


def to_nothing(run: Path, outside: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside / "not-there")


PLANTED: list[tuple[Callable[[Path, Path, str], None], str]] = [
    (to_a_file, "report.html"),
    (to_nothing, "report.html"),
    (to_a_folder, "verdict"),
    (to_nothing, "verdict"),
    (to_a_folder, ".verdict-new"),
    (to_nothing, ".verdict-new"),
    (to_a_folder, ".verdict-old"),
    (to_a_file, ".verdict-old"),
    (to_nothing, ".verdict-old"),
    (to_a_folder, "journal/probes"),
    (to_a_folder, "journal/sends"),
    (to_a_folder, "journal"),
    (to_a_file, "journal/probes/killed.arrows"),
    (to_nothing, "journal/probes/killed.arrows"),
    (to_a_folder, "logs"),
]


@pytest.mark.proves("F3")
@pytest.mark.parametrize(("plant", "name"), PLANTED, ids=[f"{name} {plant.__name__}" for plant, name in PLANTED])
def test_nothing_is_written_through_a_planted_link(
    plant: Callable[[Path, Path, str], None], name: str, tmp_path: Path, record_property: Told
) -> None:
    outside = tmp_path / "outside"
    a_run(outside / "folder")
    (outside / "folder" / "killed.arrows").write_bytes((outside / "folder/journal/probes/killed.arrows").read_bytes())
    (outside / "folder").chmod(0o700)
    (outside / "file").write_text("not ours")
    run = a_run(tmp_path / "run")
    plant(run, outside, name)
    before = contents(outside)
    record = read_record(run)
    with opened(run) as source:
        assert source.record == record
    verdict = not_judged(record, Fitness("judge", False, "Not judged."))
    write_verdict(run, verdict, None)
    write_verdict(run, verdict, None)
    write_report(run)
    assert contents(outside) == before
    assert not (run / "verdict").is_symlink()
    assert not (run / "report.html").is_symlink()
    record_property("figure", f"{len(PLANTED)} planted links: nothing written, removed or changed outside")


def test_the_judge_writes_its_temporary_files_to_a_directory_of_its_own(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    write_record(run, read_record(run))
    assert sorted(path.name for path in run.iterdir()) == ["journal", "run.json"]
