"""Output to the terminal: data is always text, and never a control sequence."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.cli.ui.console import aloud, console, say, say_json, say_problem
from ackproof.cli.ui.follow import told
from ackproof.cli.ui.lab_status import LabStatus, read_partitions, read_status
from ackproof.cli.ui.run_view import RunView
from ackproof.cli.ui.status_tables import partitions_table, status_parts
from ackproof.core.errors import Ended, UsageProblem
from ackproof.core.safe_json import json_text
from ackproof.core.text import plain
from ackproof.scenario.load import load
from ackproof.scenario.source import find
from tests.support.proving import size

HOSTILE = [
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\link",
    "[/x]",
    "[bold]b[/bold]",
    "[link=http://evil]x[/link]",
    ":smile:",
    "two\nlines",
    "carriage\rreturn",
    "bell\x07",
    "back\x08space",
    "nul\x00",
    "c1\x9b31m",
    "\u202eright to left",
    "\u2028separator",
    "lone \udc80 surrogate",
]


def obeyed(text: str) -> list[str]:
    """Return the characters that a terminal would obey, apart from line ends."""
    return [char for char in text.replace("\n", "") if not char.isprintable()]


@pytest.mark.proves("F2")
@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_is_left(text: str) -> None:
    assert not obeyed(plain(text))
    assert "\n" not in plain(text)


@pytest.mark.proves("F2")
@given(st.text())
def test_plain_text_is_printable_and_keeps_its_length(text: str) -> None:
    assert plain(text).isprintable()
    assert len(plain(text)) == len(text)
    assert plain(plain(text)) == plain(text)


@pytest.mark.proves("F2")
@pytest.mark.parametrize("text", HOSTILE)
def test_problems_and_results_are_one_line_each(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(text)
    say_problem(UsageProblem(text, [text, text]))
    captured = capsys.readouterr()
    assert (captured.out.count("\n"), captured.err.count("\n")) == (1, 3)
    assert not obeyed(captured.out + captured.err)


@pytest.mark.proves("F2")
@pytest.mark.parametrize("text", HOSTILE)
def test_an_event_is_one_line_whatever_it_holds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(told({"at": "2026-01-01T00:00:00.000+00:00", "at_ns": 1, "event": "asked", "asked": text, "targets": [text]}))
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    assert not obeyed(captured.out)


@pytest.mark.proves("F2")
@pytest.mark.parametrize("text", [text for text in HOSTILE if "\udc80" not in text])
def test_json_is_one_document_that_holds_the_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"topic": text})
    out = capsys.readouterr().out
    assert json.loads(out) == {"topic": text}
    assert not obeyed(out)


@pytest.mark.proves("F2")
@given(st.text())
def test_json_holds_no_control_character_and_is_the_same_document(text: str) -> None:
    written = json_text({text: [text, {"in": text}]})
    assert not obeyed(written.decode())
    assert json.loads(written) == {text: [text, {"in": text}]}


def test_printable_characters_stay_as_they_are_in_json() -> None:
    assert json_text("Grüße, 漢字 🏴").decode() == '"Grüße, 漢字 🏴"'
    assert json_text("\x7f\x9b\u202e\U000e0001") == rb'"\u007f\u009b\u202e\udb40\udc01"'


def partition(topic: str) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "leader": "kafka1",
        "leader_epoch": 4,
        "replicas": ["kafka1", "kafka2"],
        "isr": ["kafka1"],
        "high_watermark": 7,
        "log_end": {"kafka1": 9, "kafka2": 7},
    }


def status(text: str, **changes: Any) -> LabStatus:
    node = {
        "name": "kafka1",
        "role": "broker",
        "state": "down",
        "address": "198.18.1.1",
        "pid": None,
        "uptime_s": None,
        "memory_mb": None,
        "rack": text,
        "last_exit": text,
    }
    fault = {
        "fault": "f1",
        "kind": "cut",
        "targets": [text],
        "proved": text,
        "for_s": 1.0,
        "left_s": None,
        "broken": text,
    }
    whole = {
        "name": "lab",
        "kafka": "3.9.2",
        "mode": "zookeeper",
        "bootstrap": "kafka1:9092",
        "exposed": "127.0.0.1:19092",
        "controller": "kafka1",
        "zookeeper_leader": None,
        "nodes": [node, {**node, "name": "client", "state": "namespace"}],
        "network_groups": [["kafka1"], ["client"]],
        "faults": [fault],
        "topic_partitions": [partition(text)],
        "reachable": {"kafka1": {"client": False}, "client": {"kafka1": True}},
    }
    return read_status({**whole, **changes})


def printed(parts: list[Any]) -> str:
    screen = console()
    with screen.capture() as capture:
        for part in parts:
            screen.print(part)
    return capture.get()


@pytest.mark.proves("F2")
@pytest.mark.parametrize("text", HOSTILE)
def test_tables_and_the_status_hold_hostile_names_as_text(text: str) -> None:
    out = printed([partitions_table(read_partitions([partition(text)])), *status_parts(status(text))])
    assert not obeyed(out)
    assert out.count(plain(text)) >= 4


def test_the_status_shows_what_is_cut_who_leads_and_what_no_longer_holds() -> None:
    out = printed(status_parts(status("orders")))
    for shown in ("kafka1  |  client", "cut", "NO LONGER HOLDS", "1:9 2:7", "on this host: 127.0.0.1:19092"):
        assert shown in out


def test_a_lab_that_is_whole_shows_no_matrix() -> None:
    reachable = {"kafka1": {"client": True}, "client": {"kafka1": True}}
    out = printed(status_parts(status("x", network_groups=[["client", "kafka1"]], reachable=reachable)))
    assert "every node reaches every other (measured)" in out
    assert "from \\ to" not in out


class Closed(io.StringIO):
    """A terminal that is gone once a line with this word was written."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word
        self._gone = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._gone:
            raise OSError(errno.EIO, "Input/output error")
        self._gone = self._word in text
        return super().write(text)


@pytest.mark.proves("A2")
def test_a_terminal_that_is_gone_does_not_end_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Closed("proved"))
    live = RunView(load(find("acks1-leader-isolated")), quiet=False)
    live.tell("proved: the fault holds")
    live.tell("nobody hears it")
    live.so_far(1, 2, "nor sees it")
    live.close()


@pytest.mark.proves("A2")
@pytest.mark.parametrize("ends", [Ended(1), KeyboardInterrupt()])
def test_a_signal_that_comes_with_the_end_of_the_terminal_is_handled(ends: BaseException) -> None:
    """The signal comes in the middle of a line, and the rest of the line goes to a terminal that is gone."""

    def fails() -> None:
        raise OSError(errno.EIO, "Input/output error")

    def line() -> None:
        try:
            raise ends
        finally:
            fails()

    with pytest.raises(type(ends)) as heard, aloud():
        line()
    assert heard.value is ends
    try:
        raise ends
    except (Ended, KeyboardInterrupt):
        with aloud():  # it was heard, and is told to nobody while all is put away
            fails()


@pytest.mark.parametrize("acked", [2_000, 2_900])
def test_waiting_messages_are_shown_when_nothing_moves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, acked: int
) -> None:
    live = RunView(load(find("acks1-leader-isolated")), quiet=True)
    clients = SimpleNamespace(producers=[], consumers=[], leaders=SimpleNamespace(now={}))
    run: Any = SimpleNamespace(faults=[], clients=clients, directory=tmp_path)
    live.follow(run)
    live.counts({"sent": 3_000, "acked": acked, "failed": 60, "unknown": 40})
    assert ("waiting 900" in capsys.readouterr().err) is (acked == 2_000)


@pytest.mark.parametrize("broken", [False, True])
def test_a_fault_that_no_longer_holds_is_not_shown_as_one_that_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, broken: bool
) -> None:
    fault = SimpleNamespace(
        plan=SimpleNamespace(kind="isolate"), targets=["kafka1"], begun_at=1.0, over=False, broken=broken
    )
    live = RunView(load(find("acks1-leader-isolated")), quiet=True)
    clients = SimpleNamespace(producers=[], consumers=[], leaders=SimpleNamespace(now={}))
    run: Any = SimpleNamespace(faults=[fault], clients=clients, directory=tmp_path)
    live.follow(run)
    live.counts(dict.fromkeys(("sent", "acked", "failed", "unknown"), 0))
    assert capsys.readouterr().err.rstrip().endswith("FAULT isolate kafka1" + " NO LONGER HOLDS" * broken)


SAYS_MUCH = """
import os, signal
from ackproof.cli import main as cli
from ackproof.core.errors import Ended
from ackproof.cli.ui.run_view import RunView
from ackproof.scenario.load import load
from ackproof.scenario.source import find

signal.signal(signal.SIGHUP, cli._on_signal)
live = RunView(load(find("acks1-leader-isolated")), quiet=False)
try:
    for number in range(3_000):
        live.tell(f"line {number}")
except Ended:
    live.close()
    os._exit(129)
"""


@pytest.mark.proves("A2")
def test_a_terminal_that_is_closed_in_the_middle_of_a_line_ends_it(
    record_property: Callable[[str, object], None],
) -> None:
    tries = size(2, 40)
    for place in range(tries):
        window, terminal = os.openpty()
        says = subprocess.Popen(
            [sys.executable, "-c", SAYS_MUCH],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        said = b""
        while f"line {place}".encode() not in said:
            said = said[-100:] + os.read(window, 4096)
        os.close(window)
        assert says.wait(timeout=60) == 128 + signal.SIGHUP
    record_property("figure", f"a terminal closed in the middle of a line, {tries} times: heard every time")
