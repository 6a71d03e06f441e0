"""Output that cannot be written: a verdict keeps its exit code, any other command ends with 4, and there is no
traceback."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ackproof import report
from ackproof.api import judge as api_judge
from ackproof.api import run as api_run
from ackproof.cli import main as cli
from ackproof.host import outputs
from ackproof.lab import client as control
from ackproof.lab import ingredients, launch
from ackproof.model.run_record import read_record
from ackproof.model.verdict import Fitness, Result, Verdict, not_judged
from ackproof.run import execution as running
from tests.support.command_line import AIMED_AT_A_LAB, LEAVES, Run, run, state
from tests.support.lab_network import in_a_child

__all__ = ["run", "state"]  # fixtures

Ended = tuple[int, str, str]
RECORDED = Path(__file__).parents[2] / "recorded" / "runs" / "no-loss"
WAYS = ["stdout full", "stderr full", "stdout closed", "stderr closed", "all closed", "ulimit -f 0", "reader gone"]
WORKS = [
    ["--version"],
    [],
    ["nosuchverb"],
    ["list"],
    ["list", "--json"],
    ["show", "acks1-leader-isolated"],
    ["check", "acks1-leader-isolated", "nosuchfile.toml"],
    ["check", "acks1-leader-isolated"],
    ["schema"],
    ["run", "acks1-leader-isolated", "--dry-run"],
    ["run", "acks1-leader-isolated", "--dry-run", "--json"],
    ["report", "RUN"],
    ["judge", "nosuchrun"],
]
LAB_LINES = [line if "nosuchlab" in line else [*line, "--name", "nosuchlab"] for line in AIMED_AT_A_LAB]


def spoil(way: str, folder: Path) -> None:
    """Make the outputs of this process what the way says; Python has no stream where a descriptor is closed."""
    for descriptor, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        path = folder / name
        path.write_bytes(b"")
        place = os.open("/dev/full" if way == f"{name} full" else path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(place, descriptor)
        os.close(place)
    if way == "ulimit -f 0":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if way == "reader gone":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
        os.close(writing)
    closed = [
        each for each, name in enumerate(("stdin", "stdout", "stderr")) if way in (f"{name} closed", "all closed")
    ]
    for descriptor in closed:
        os.close(descriptor)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = None if descriptor in closed else io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False))
        setattr(sys, name, stream)


def ended(way: str, folder: Path, *works: Callable[[], int]) -> list[Ended]:
    """Return the exit code of each command line, and what it printed as far as that was possible."""

    def one(work: Callable[[], int]) -> Ended:
        outputs._results, outputs._verdict = None, False
        spoil(way, folder)
        try:
            outputs.guard()
            code = outputs.finished(work())
        except BaseException:  # noqa: BLE001  # as Python does it
            code = 1
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except Exception:  # noqa: BLE001  # as Python does it when it ends
            code = 120
        out, err = ((folder / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
        return code, out, err

    def child() -> list[Ended]:
        return [one(work) for work in works]

    found = in_a_child(child)
    assert isinstance(found, list), found
    return found


def command_line(words: list[str]) -> Callable[[], int]:
    def work() -> int:
        sys.argv = ["ackproof", *words]
        return cli._run()

    return work


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Return command lines for every command: its help, and real work where that needs neither a lab nor Spark."""
    copy = shutil.copytree(RECORDED, tmp_path_factory.mktemp("runs") / "run")
    works = [[str(copy) if word == "RUN" else word for word in line] for line in WORKS]
    return [*([*words.split(), "--help"] for words in LEAVES), *LAB_LINES, *works]


@pytest.fixture(scope="module")
def usual(lines: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Return what the command lines print and end with if nothing is wrong."""
    cli._command()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", "/nonexistent")
        return ended("none", tmp_path_factory.mktemp("usual"), *map(command_line, lines))


@pytest.mark.proves("E3")
@pytest.mark.parametrize("way", WAYS)
def test_a_command_whose_output_cannot_be_written_ends_without_a_verdicts_code_and_without_a_traceback(
    way: str,
    lines: list[list[str]],
    usual: list[Ended],
    state: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    wrong = []
    spoilt = {141} if way == "reader gone" else set() if way.startswith("stderr") else {4}
    for line, (usual_code, usual_out, _), (code, out, err) in zip(
        lines, usual, ended(way, tmp_path, *map(command_line, lines)), strict=True
    ):
        lost = bool(spoilt and usual_out)
        good = spoilt | ({usual_code} if usual_code else set()) if lost else {usual_code}
        bad_words = [word for word in ("Traceback", "bug of ours", "the disk of") if word in out + err]
        told = err.count("standard output cannot be written") == (lost and way.startswith("stdout"))
        if code not in good or bad_words or not told:
            wrong.append(f"{' '.join(line)}: {code}, not {good}: {err[-300:]}")
    assert not wrong, "\n".join(wrong)
    assert {code for code, _, _ in usual} == {0, 2}
    record_property("figure", f"{len(lines)} command lines, {way}: neither 1, 70 nor 120, and no traceback")


# -- verdicts --------------------------------------------------------------------------------------------------------


def verdict(result: Result) -> Verdict:
    return msgspec.structs.replace(not_judged(read_record(RECORDED), Fitness("x", False, "No.")), result=result)


class FakeJudging:
    result: Result = "confirmed"

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def judge(self, directories: list[Path], *_: object) -> list[Verdict]:
        return [verdict(self.result) for _ in directories]

    def close(self) -> None:
        pass


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the lab and the judge of a run by ones that take no time."""
    directory = SimpleNamespace(name="a")
    monkeypatch.setattr(api_run, "Judging", FakeJudging)
    monkeypatch.setattr(api_judge, "Judging", FakeJudging)
    monkeypatch.setattr(ingredients, "gather", lambda *_: launch.Ingredients("/bin/false", "/", "/", None))
    monkeypatch.setattr(launch, "launch", lambda *_, **__: SimpleNamespace(directory=directory, close=lambda: None))
    monkeypatch.setattr(api_run, "_run_load", lambda *_: None)
    monkeypatch.setattr(api_run, "remove_dead_runs", lambda: None)
    monkeypatch.setattr(running, "RunExecution", lambda *_: SimpleNamespace(doubts=list))
    monkeypatch.setattr(control, "down", lambda _: None)
    monkeypatch.setattr(report, "write_report", lambda directory: directory / "report.html")


@pytest.mark.proves("E3")
@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("way", [way for way in WAYS if way != "ulimit -f 0"])
@pytest.mark.parametrize(("result", "code"), [("confirmed", 0), ("refuted", 1), ("unknown", 3)])
def test_the_exit_code_of_a_verdict_stands_even_if_the_output_cannot_be_written(
    result: Result, code: int, way: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeJudging, "result", result)
    copy = shutil.copytree(RECORDED, tmp_path / "run")
    out = ["--out", str(tmp_path / "runs")]
    lines = [["judge", str(copy), str(copy)], ["judge", "--json", str(copy)]]
    lines += [["run", "acks1-leader-isolated", "--repeat", "2", *words, *out] for words in ([], ["--json"])]
    for words, (found, said, err) in zip(lines, ended(way, tmp_path, *map(command_line, lines)), strict=True):
        assert found == code, (words, said, err)
        assert "Traceback" not in said + err
        if way.startswith("stdout"):
            assert err.count("standard output cannot be written") == 1
            assert "the exit code is the verdict's" in err
    assert len([*(tmp_path / "runs").iterdir()]) == 4


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize(("way", "code"), [("stdout full", 4), ("reader gone", 141), ("stderr full", 0)])
def test_without_a_verdict_unwritten_output_is_reported_when_all_runs_are_over(
    way: str, code: int, state: Path, tmp_path: Path
) -> None:
    words = ["run", "acks1-leader-isolated", "--repeat", "2", "--no-judge", "--out", str(tmp_path / "runs")]
    ((found, _, err),) = ended(way, tmp_path, command_line(words))
    assert found == code, err
    assert len([*(tmp_path / "runs").iterdir()]) == 2


# -- processes of their own ------------------------------------------------------------------------------------------

SHELL = {
    ">/dev/full": 4,
    "2>/dev/full": 0,
    ">&-": 4,
    "2>&-": 0,
    "<&- >&- 2>&-": 4,
    ">/dev/full 2>/dev/full": 4,
    "| true": 141,
}


@pytest.mark.proves("E3")
def test_a_process_of_its_own_ends_the_same_way(state: Path) -> None:
    program = f"{sys.executable} -P -m ackproof list --json"
    for way, code in SHELL.items():
        line = f"set -o pipefail; {program} {way}"
        if way == "| true":  # its end must not come before the reader has gone
            line = f"set -o pipefail; (sleep 0.2; exec {program}) | true"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (way, done.stderr)
        assert done.stderr.count("\n") == (code == 4 and "2>" not in way), way


def test_no_file_gets_the_number_of_a_closed_descriptor(tmp_path: Path) -> None:
    def opened() -> list[int]:
        spoil("all closed", tmp_path)
        outputs.guard()
        with (tmp_path / "a").open("w") as first, (tmp_path / "b").open("w") as second:
            print("no words of ours")
            return [first.fileno(), second.fileno()]

    assert min(in_a_child(opened)) > 2
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"", b""]


def test_output_waits_for_a_terminal_that_another_program_made_non_blocking() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    found: list[bytes] = []

    def read() -> None:
        while chunk := os.read(reading, 2**20):
            found.append(chunk)

    reader = threading.Thread(target=read)
    with outputs.Output(writing, stops=True) as out:
        reader.start()
        out.write(b"x" * 2**20)
        out.flush()
    os.close(writing)
    reader.join()
    os.close(reading)
    assert len(b"".join(found)) == 2**20


def test_failed_output_ends_the_command_from_the_main_thread_only() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    output = outputs.Output(full, stops=True)

    def tell() -> None:
        output.write(b"x")
        output.flush()

    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
    assert output.problem is not None
    assert output.problem.errno == errno.ENOSPC
    with pytest.raises(outputs.Unwritten, match="No space left"):
        output.write(b"x")
    output.stops = False
    os.close(full)


@pytest.mark.spark
@pytest.mark.proves("E3")
def test_the_judge_of_a_recorded_run_has_the_same_exit_code_if_its_output_cannot_be_written(tmp_path: Path) -> None:
    copy = shutil.copytree(RECORDED, tmp_path / "run")
    command = [sys.executable, "-P", "-m", "ackproof", "judge", str(copy)]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        for streams in ({"stdout": full}, {"stderr": full}, {"stdout": full, "stderr": full}):
            assert subprocess.run(command, check=False, timeout=100, **streams).returncode == 0  # type: ignore[call-overload]


# -- what this process may have --------------------------------------------------------------------------------------


@pytest.mark.proves("E3")
@pytest.mark.parametrize("megabytes", [100, 300])
def test_too_little_memory_is_one_sentence(megabytes: int, state: Path) -> None:
    line = f"ulimit -v {megabytes * 1024}; exec {sys.executable} -P -m ackproof list"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1), done.stderr
    assert f"too little memory may be used (`ulimit -v` allows {megabytes} MB" in done.stderr


@pytest.mark.proves("E3")
@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (MemoryError(), "too little memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "too little memory"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no more processes and threads"),
        (RuntimeError("can't start new thread"), "no more processes and threads"),
        (OSError(errno.EFBIG, "File too large", "runs/x"), "ulimit -f"),
    ],
)
def test_a_limit_of_this_process_is_named(
    problem: Exception, said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise problem

    monkeypatch.setattr(control, "down", fails)
    code, out, err = run("down")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert said in err


@pytest.mark.proves("E1")
@pytest.mark.parametrize("words", [["report", "RUN", "--out", "PLACE"], ["run", "access", "--junit", "PLACE"]])
@pytest.mark.parametrize("linked", [False, True])
def test_a_device_or_pipe_is_not_replaced_by_a_file(
    words: list[str], linked: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingredients, "gather", lambda *_: pytest.fail("a lab was about to start"))
    copy = shutil.copytree(RECORDED, tmp_path / "run")
    pipe, place = tmp_path / "pipe", tmp_path / "place"
    os.mkfifo(pipe)
    place.symlink_to(pipe) if linked else pipe.rename(place)
    names = {"RUN": str(copy), "PLACE": str(place)}
    code, out, err = run(*(names.get(word, word) for word in words))
    assert (code, out) == (2, "")
    assert "name a file, not a device" in err
    assert place.is_fifo()


def test_an_interrupt_keeps_its_exit_code_if_output_cannot_be_written(state: Path, tmp_path: Path) -> None:
    def work() -> int:
        print("half of it")
        return 128 + signal.SIGINT

    assert ended("stdout full", tmp_path, work)[0][0] == 130


@pytest.mark.proves("E1")
@pytest.mark.parametrize("number", [10**30, -(10**30), -1, 2**63])
@pytest.mark.parametrize("place", [["run"], ["marks", "ready_ns"], ["plan", "timeout_s"], ["producers", 0, "id"]])
def test_a_number_out_of_range_in_a_run_is_one_sentence(
    place: list[Any], number: int, run: Run, tmp_path: Path
) -> None:
    copy = shutil.copytree(RECORDED, tmp_path / "run")
    document = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    within = document
    for step in place[:-1]:
        within = within[step]
    within[place[-1]] = number
    (copy / "run.json").write_text(json.dumps(document), encoding="utf-8")
    if number == -1 and place[0] in ("plan", "marks"):
        read_record(copy)  # not refused here
        return
    with pytest.raises(msgspec.DecodeError, match=r"out of range|larger than|Expected .int."):
        read_record(copy)
    code, out, err = run("report", str(copy))
    assert (code, out, err.count("\n")) == (2, "", 1), err
