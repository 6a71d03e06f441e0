"""The documented behaviour of the command line: exit codes, one sentence, no traceback, nothing started, nothing
left behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof.cli import main as cli
from ackproof.cli.options import seconds, share
from ackproof.core.errors import CannotHere, Ended, NotProved, Problem, Refused, UsageProblem, problem_of
from ackproof.core.text import plain
from ackproof.judge import worker as judging
from ackproof.lab import client as control
from ackproof.lab import ingredients, launch
from ackproof.lab.node_config import MEMORY_MB
from ackproof.model.faults import Cut, Flaky, Kill, Partition, Slow
from tests.support.command_line import AIMED_AT_A_LAB, BAD_LINES, LEAVES, Run, commands, run, state

__all__ = ["run", "state"]  # the fixtures


@pytest.mark.proves("E1")
@pytest.mark.parametrize(
    "words", [["judge", "theirs"], ["report", "theirs"], ["report", "theirs", "--out", "theirs/p"]]
)
def test_a_run_directory_without_permission_to_read_is_reported(
    words: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of another user may be visible, and its content not readable."""

    def stat(path: Path, **_: object) -> os.stat_result:
        if path.parent.name == "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return os.stat("/" if path.name == "theirs" else path)  # noqa: PTH116 - path.stat is this

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat)
        code, _, said = run(*words)
    assert code == 2, said
    assert "cannot be looked at (Permission denied): ask its owner" in said


# -- problems become exit codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (UsageProblem("no such node"), 2),
        (NotProved("not proved"), 3),
        (CannotHere("no Java"), 4),
        (Refused("not yours"), 5),
    ],
)
def test_a_problem_exits_with_its_code_and_one_sentence(
    problem: Problem, code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "down", raising(problem))
    assert run("down") == (code, "", f"ackproof: {problem.message}\n")


def raising(problem: BaseException) -> Callable[..., Any]:
    def raise_(*_: object, **__: object) -> Any:
        raise problem

    return raise_


def test_evidence_is_printed_below_the_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "down", raising(CannotHere("kafka2 died; its log ends:", ["line 1", "line\x1b[2J 2"])))
    assert run("down")[2].splitlines() == ["ackproof: kafka2 died; its log ends:", "  line 1", "  line�[2J 2"]


@pytest.mark.parametrize("problem", [RuntimeError("boom"), KeyError("x"), Problem("the supervisor failed", ["why"])])
def test_a_bug_exits_with_70_and_keeps_the_traceback_in_a_file(
    problem: Exception, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(control, "down", raising(problem))
    code, out, err = run("down")
    assert (code, out) == (70, "")
    assert "bug of ours" in err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    (report,) = tmp_path.glob("ackproof-bug-*.txt")
    assert str(report) in err
    assert str(problem.args[0]) in report.read_text()


@pytest.fixture
def no_temporary_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every possible temporary folder full or read-only."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])


@pytest.mark.usefixtures("no_temporary_folder")
def test_a_judge_without_a_temporary_folder_names_the_folder_that_it_needs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "find_java", lambda: None)
    (tmp_path / "journal").mkdir()
    code, out, err = run("judge", str(tmp_path))
    assert (code, out) == (4, "")
    assert "set TMPDIR" in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("no_temporary_folder")
def test_a_bug_is_reported_even_if_its_file_cannot_be_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "call", raising(RuntimeError("oops")))
    code, out, err = run("heal")
    assert (code, out) == (70, "")
    assert "bug of ours (RuntimeError('oops')); what we need to mend it could not be written down" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_exits_with_128_and_its_number(
    number: signal.Signals, code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "down", raising(Ended(number)))
    assert run("down")[0] == code


def test_an_interrupt_exits_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "down", raising(KeyboardInterrupt()))
    code, out, err = run("down")
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_an_interrupt_before_a_command_has_begun_exits_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_command", raising(KeyboardInterrupt()))
    code, out, err = run("down")
    assert (code, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.proves("A2")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_during_the_imports_ends_the_process_at_once(number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ackproof", "list"]
    early = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert early.stderr is not None
        assert any("click" in line for line in early.stderr)  # of what the command line imports, one of the first
        early.send_signal(number)
        out, err = early.communicate(timeout=20)
        assert (early.returncode, out) == (code, "")
        assert "Traceback" not in err
    finally:
        early.kill()
        early.communicate()


SLOW_TO_END = """
import sys, time
from ackproof.cli import main as cli
from ackproof.lab import client as control

def linger():
    for _ in range(600):  # a signal that comes just before a sleep is not heard until its end
        time.sleep(0.1)

def down(*_):
    try:
        print("begun", flush=True)
        linger()
    finally:
        print("ending", flush=True)
        linger()

control.down = down
sys.argv = ["ackproof", "down"]
cli.main()
"""


@pytest.mark.proves("A2")
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_interrupt_ends_the_process_at_once(state: Path, first: signal.Signals) -> None:
    slow = subprocess.Popen([sys.executable, "-c", SLOW_TO_END], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert slow.stdout is not None
        assert slow.stdout.readline() == b"begun\n"
        slow.send_signal(first)
        assert slow.stdout.readline() == b"ending\n"
        slow.send_signal(signal.SIGINT)
        assert slow.wait(2) == 130
        assert slow.communicate() == (b"", b"")
    finally:
        slow.kill()
        slow.communicate()


def test_a_command_started_with_nohup_outlives_its_terminal(state: Path) -> None:
    deaf = subprocess.Popen(
        ["nohup", sys.executable, "-c", SLOW_TO_END], stdin=subprocess.DEVNULL, stdout=-1, stderr=-1
    )
    try:
        assert deaf.stdout is not None
        assert deaf.stdout.readline() == b"begun\n"
        deaf.send_signal(signal.SIGHUP)
        deaf.send_signal(signal.SIGTERM)
        assert deaf.stdout.readline() == b"ending\n"
        deaf.send_signal(signal.SIGINT)
        assert deaf.wait(2) == 130
    finally:
        deaf.kill()
        deaf.communicate()


def test_a_reader_that_has_ended_is_no_bug(state: Path) -> None:
    code = "import sys; sys.argv = ['ackproof', '--help']; from ackproof.cli.main import main; main()"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert done.returncode in (0, 141)
    assert done.stderr == b""


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_a_problem_crosses_the_control_socket_with_its_code(code: int) -> None:
    assert (problem_of(code, "x", ["y"]).exit_code, problem_of(code, "x", ["y"]).details) == (code, ("y",))


def test_an_unknown_code_from_the_lab_is_a_bug() -> None:
    assert problem_of(99, "x").exit_code == 70


# -- wrong usage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "said"), BAD_LINES, ids=[" ".join(line) for line, _ in BAD_LINES])
def test_wrong_usage_exits_with_2_and_one_sentence(arguments: list[str], said: str, run: Run) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("ackproof: ")
    assert err.count("\n") == 1
    assert said.lower() in err.lower()


@pytest.mark.proves("E1")
@pytest.mark.parametrize("word", ["acks1\udcff", "--set=producer.acks=\udcff", "\udce9.toml"])
def test_arguments_that_are_not_utf8_are_refused(word: str, run: Run) -> None:
    code, out, err = run("run", "acks1-leader-isolated", word, "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith(f"ackproof: {plain(word)}: this is not valid UTF-8")


@pytest.mark.proves("F2")
@pytest.mark.parametrize("words", [["no\x1b[31msuch"], ["status", "--no\x9bsuch"], ["up", "--brokers", "\x1b[2J\n\r7"]])
def test_control_characters_in_an_argument_are_printed_as_text(words: list[str], run: Run) -> None:
    code, _, err = run(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert err[:-1].isprintable()


@pytest.mark.parametrize("arguments", AIMED_AT_A_LAB, ids=[" ".join(line) for line in AIMED_AT_A_LAB])
def test_a_lab_that_is_not_up_is_reported_with_the_command_that_starts_it(arguments: list[str], run: Run) -> None:
    named = arguments if "nosuchlab" in arguments else [*arguments, "--name", "nosuchlab"]
    code, out, err = run(*named)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "no lab named 'nosuchlab' is up" in err
    assert "ackproof up --name nosuchlab" in err


def test_every_documented_command_exists() -> None:
    assert set(LEAVES) >= {line[0] for line in AIMED_AT_A_LAB if line[0] != "topic"} | {"up", "doctor", "watch"}


def test_an_impossible_lab_is_reported_with_all_its_problems_at_once(run: Run) -> None:
    code, out, err = run("up", "--brokers", "0", "--quorum", "2", "--log-dirs", "50", "--set", "nobody.x=1")
    assert (code, out) == (2, "")
    began = [line.split()[0] for line in err.splitlines()]
    assert began == ["ackproof:", "--brokers", "--quorum", "--log-dirs", "--set"]


@pytest.mark.parametrize("words", LEAVES)
def test_the_help_of_every_command_has_an_example_of_it(words: str, run: Run) -> None:
    code, out, err = run(*words.split(), "--help")
    assert (code, err) == (0, "")
    assert "Example" in out
    assert f"ackproof {words}" in " ".join(out.split())


def test_help_and_version_start_nothing(run: Run) -> None:
    assert run("--version")[0] == 0
    assert "ackproof up" in run("--help")[1]


def test_an_unexpected_argument_is_refused(run: Run) -> None:
    code, _, err = run("down", "everything")
    assert code == 2
    assert "everything" in err


def test_the_program_exits_with_the_documented_code_and_without_a_traceback(state: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ackproof", "cut", "kafka1", "kafka2", "--name", "nosuchlab"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_results_go_to_standard_output_and_json_is_alone_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(_: str, verb: str, progress: Callable[[str], None], **arguments: object) -> dict[str, Any]:
        progress("half way")
        return {"said": [f"{verb} {arguments['nodes']}"], "nodes": arguments["nodes"]}

    monkeypatch.setattr(control, "call", call)
    code, out, err = run("stop", "kafka1", "--json")
    assert (code, json.loads(out)["nodes"]) == (0, ["kafka1"])
    assert "half way" in err
    assert run("stop", "kafka1")[1] == "stop ['kafka1']\n"


FAULTS = {
    "kill kafka1 leader:orders/0": (Kill(["kafka1", "leader:orders/0"]), None),
    "flaky kafka1 --loss 5% --for 1m": (Flaky(["kafka1"], loss=0.05), 60.0),
    "slow kafka1 --delay 50ms": (Slow(["kafka1"], delay_ms=50.0), None),
    "cut kafka1 zk* --one-way --port 2181 --for 1500ms": (Cut(["kafka1"], ["zk*"], one_way=True, port=2181), 1.5),
    "cut kafka1,kafka2 client --reset": (Cut(["kafka1", "kafka2"], ["client"], reset=True), None),
    "partition kafka1,kafka2 kafka3": (Partition([["kafka1", "kafka2"], ["kafka3"]]), None),
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_command_asks_the_lab_for_its_fault(line: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any, Any]] = []

    def call(_: str, verb: str, __: object, **arguments: object) -> dict[str, Any]:
        asked.append((verb, arguments["fault"], arguments.get("for_s")))
        return {"said": []}

    monkeypatch.setattr(control, "call", call)
    run(*line.split())
    assert asked == [("inject", *FAULTS[line])]


@pytest.mark.proves("E3")
def test_too_little_memory_is_reported_before_anything_starts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingredients, "MEMORY_MB", dict.fromkeys(MEMORY_MB, 10**9))
    code, _, err = run("up", "--name", "nosuchlab")
    assert code == 4
    assert "fewer --brokers" in err


@pytest.mark.proves("E3")
def test_too_little_memory_for_the_clients_of_a_scenario_is_reported_before_anything_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ingredients, "CLIENT_MB", 10**9)
    code, _, err = run("run", "acks1-leader-killed", "--shape", "crowd", "--out", str(tmp_path / "runs"))
    assert (code, (tmp_path / "runs").exists()) == (4, False)
    assert f"this needs about {10 * 10**9 + 1560} MB of memory" in err
    assert "fewer clients" in err


@pytest.mark.proves("E3")
def test_a_state_folder_that_cannot_be_written_is_reported_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(ingredients, "gather", lambda *_: launch.Ingredients("/bin/false", "/", "/", None))
    code, _, err = run("up", "--name", "nosuchlab")
    assert code == 4
    assert "XDG_STATE_HOME" in err


# -- durations and shares --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30), ("500ms", 0.5), ("2m", 120), ("2min", 120), ("1h", 3600), ("7", 7), ("1.5s", 1.5), (" 3 s ", 3)],
)
def test_a_duration_is_read(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "s", "0", "0s", "0.0ms", "-1s", "1d", "1e3", "1,5s", "1s2", "nan", "inf", "1 2s"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="no duration"):
        seconds(text)


def test_a_duration_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageProblem):
        seconds("9" * 400)


@pytest.mark.parametrize(
    ("text", "value"), [("5 %", 0.05), ("0.05", 0.05), ("100%", 1), ("1", 1), ("0.1%", 0.001), ("2.5 %", 0.025)]
)
def test_a_share_is_read(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "%", "0", "0%", "-5%", "5", "101%", "1.01", "0.09%", "five", "nan", "5%%"])
def test_text_that_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="no share"):
        share(text)


@pytest.mark.parametrize("runs", [1, 2])
def test_an_index_is_written_to_the_given_path(runs: int, run: Run, tmp_path: Path) -> None:
    for number in range(2):
        shutil.copytree(Path(__file__).parents[2] / "recorded" / "runs" / "no-loss", tmp_path / f"run{number}")
    made = [str(tmp_path / f"run{number}") for number in range(runs)]
    for asked, written in (("page.html", "page.html"), (".", "index.html")):
        code, out, _ = run("report", *made, "--out", str(tmp_path / asked))
        assert (code, out.strip()) == (0, f"report: {tmp_path / written}")
        assert "run0/report.html" in (tmp_path / written).read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_one_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    shutil.copytree(Path(__file__).parents[2] / "recorded" / "runs" / "no-loss", directory)

    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(directory / "report.html"))

    monkeypatch.setattr("tempfile.mkstemp", refuses)
    code, out, err = run("report", str(directory))
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert f"{directory / 'report.html'}" in err


WITHOUT_A_LAB = ("explain", "doctor", "topic", "run", "judge", "diff", "report", "list", "show", "check", "schema")


def test_every_command_about_a_lab_takes_a_name() -> None:
    for words, command in commands().items():
        if words not in WITHOUT_A_LAB and not hasattr(command, "commands"):
            assert any("--name" in parameter.opts for parameter in command.params), words


def test_a_missing_program_that_a_scenario_needs_is_reported_in_one_sentence(
    run: Run, state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = run("run", "foreign-kcat", "--out", str(tmp_path / "runs"))
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "foreign-kcat needs the program kcat" in err
    assert not (tmp_path / "runs").exists()
