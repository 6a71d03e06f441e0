"""The view of a lab, computed from answers that are written by hand, and shown on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, Group

from ackproof.cli.ui import lab_view, lab_watch
from ackproof.cli.ui.lab_status import GroupStatus, read_groups, read_status
from ackproof.cli.ui.lab_view import Look, assigned, draw, fit, severed
from ackproof.cli.ui.lab_watch import changes, facts
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory

HOSTILE = "\x1b[2J[/bold][red]\x07\u202e\nx"
NAMES = ["zk1", "kafka1", "kafka2", "client"]


def node(name: str, role: str, state: str = "running", **more: Any) -> dict[str, Any]:
    told = {"name": name, "role": role, "state": state, "address": f"198.18.0.{name}", "rack": None, "pid": 4711}
    return {**told, "uptime_s": 61.0, "memory_mb": 301.4, "last_exit": None, **more}


def partition(topic: str, number: int, leader: str | None = "kafka1", **more: Any) -> dict[str, Any]:
    told = {"topic": topic, "partition": number, "leader": leader, "leader_epoch": 3, "replicas": ["kafka1", "kafka2"]}
    ends = {"kafka1": 12, "kafka2": 12}
    return {**told, "isr": ["kafka1", "kafka2"], "high_watermark": 12, "log_end": ends, "log_start": 0, **more}


def reach(*cut: tuple[str, str]) -> dict[str, dict[str, bool]]:
    return {a: {b: (a, b) not in cut for b in NAMES} for a in NAMES}


def told(**status: Any) -> dict[str, Any]:
    whole = {
        "name": "demo",
        "kafka": "3.9.2",
        "mode": "zookeeper",
        "bootstrap": "kafka1:9092,kafka2:9092",
        "exposed": None,
        "controller": "kafka1",
        "zookeeper_leader": "zk1",
        "nodes": [
            node("zk1", "zookeeper"),
            node("kafka1", "broker"),
            node("kafka2", "broker"),
            node("client", "client"),
        ],
        "network_groups": [NAMES],
        "reachable": reach(),
        "faults": [],
        "topic_partitions": [partition("orders", 0)],
    }
    return {**whole, **status}


def look(**status: Any) -> Look:
    return Look(read_status(told(**status)), (), (), 100.0, "10:00:00 UTC")


def group(id_: str, *members: tuple[str, list[list[Any]] | None]) -> GroupStatus:
    said = [
        {"id": f"{name}-1f2e3d4c", "client_id": name, "host": "/198.18.0.client", "assigned": held}
        for name, held in members
    ]
    (read,) = read_groups([{"id": id_, "type": "classic", "state": "Stable", "protocol": "range", "members": said}])
    return read


def shown(
    seen: Look, *fresh: Any, width: int = 100, height: int | None = None, stale_s: int | None = None, ansi: bool = False
) -> str:
    console = Console(width=width, color_system="standard" if ansi else None, force_terminal=ansi, markup=False)
    with console.capture() as capture:
        console.print(Group(*draw(seen, frozenset(fresh), stale_s, None, width, height)))
    return capture.get()


def test_the_view_names_nodes_leaders_watermarks_members_and_events() -> None:
    seen = replace(
        look(),
        groups=(group("billing", ("app", [["orders", 0]])),),
        events=({"at": "2026-01-01T10:00:00.123+00:00", "event": "asked", "verb": "kill"},),
    )
    text = shown(seen)
    for words in (
        "demo  Kafka 3.9.2, zookeeper mode",
        "kafka1  running",
        "controller",
        "every node reaches every other",
    ):
        assert words in text
    assert "orders     0  kafka1      3  1 2       1 2             12  12" in text
    assert "billing  Stable  app 1f2e3d  client  orders 0" in text
    assert "10:00:00.123  asked" in text


def test_a_node_that_is_down_says_how_it_ended_and_a_leader_that_is_down_is_red() -> None:
    gone = node("kafka1", "broker", "down", pid=None, uptime_s=None, memory_mb=None, last_exit="SIGKILL")
    seen = look(nodes=[node("zk1", "zookeeper"), gone])
    assert "kafka1  down           controller SIGKILL" in shown(seen)
    assert "\x1b[31mkafka1" in shown(seen, ansi=True)
    assert "\x1b[31mkafka1" not in shown(look(), ansi=True)


def test_a_replica_that_ends_elsewhere_is_named_beside_the_furthest() -> None:
    behind = partition("orders", 0, isr=["kafka1"], log_end={"kafka1": 12, "kafka2": 9})
    silent = partition("orders", 1, log_end={"kafka1": 12}, high_watermark=None)
    nobody = partition("orders", 2, leader=None, isr=[], log_end={}, high_watermark=None, leader_epoch=None)
    text = shown(look(topic_partitions=[behind, silent, nobody]))
    assert "12  12 2:9" in text
    assert "?  12 2:?" in text
    assert "none        ?  1 2       none             ?  ?" in text


def test_kafkas_own_topics_are_mentioned_only_when_they_are_not_whole() -> None:
    whole, ill = partition("__consumer_offsets", 0), partition("__consumer_offsets", 1, isr=["kafka1"])
    assert "__consumer" not in shown(look(topic_partitions=[whole]))
    assert "1 of 2 partitions of Kafka's own topics not whole" in shown(look(topic_partitions=[whole, ill]))


# -- cut links and faults


def test_an_open_network_has_nothing_severed() -> None:
    assert severed(reach()) == ([], [])


def test_a_node_cut_off_from_several_is_one_line() -> None:
    pairs = [("kafka2", "zk1"), ("kafka2", "kafka1")]
    both, one_way = severed(reach(*pairs, *(pair[::-1] for pair in pairs)))
    assert (both, one_way) == ([(["kafka2"], ["zk1", "kafka1"])], [])


def test_the_side_of_a_split_is_one_line() -> None:
    pairs = [(a, b) for a in ("zk1", "kafka1") for b in ("kafka2", "client")]
    both, _ = severed(reach(*pairs, *(pair[::-1] for pair in pairs)))
    assert both == [(["zk1", "kafka1"], ["kafka2", "client"])]


def test_a_one_way_cut_keeps_its_direction() -> None:
    assert severed(reach(("kafka1", "client"))) == ([], [(["kafka1"], ["client"])])
    assert "kafka1 not heard by client" in shown(look(reachable=reach(("kafka1", "client"))))


def test_the_time_left_of_a_fault_goes_on_running_while_the_lab_is_slow() -> None:
    fault = {"fault": "f1", "kind": "cut", "targets": ["kafka1", "zk*"], "for_s": 4.0, "left_s": 26.0}
    seen = look(faults=[{**fault, "proved": "2 links severed", "broken": None}])
    assert "f1 cut kafka1 zk*  for 4 s, 26 s left  2 links severed" in shown(seen)
    assert "f1 cut kafka1 zk*  for 7 s, 23 s left" in shown(seen, stale_s=3)
    assert "3 s ago, it is slow to answer" in shown(seen, stale_s=3)
    assert "NO LONGER HOLDS: it leaks" in shown(look(faults=[{**fault, "proved": "", "broken": "it leaks"}]))


# -- what has changed


def test_only_what_changed_is_fresh_and_only_for_a_while() -> None:
    before = look()
    after = look(topic_partitions=[partition("orders", 0, leader="kafka2")])
    found = changes(facts(before), facts(after), {}, now=10.0)
    assert found == {("leader", "orders", 0): 10.0}
    assert changes(facts(after), facts(after), found, now=10.0 + lab_watch.FRESH_S - 0.1) == found
    assert changes(facts(after), facts(after), found, now=10.0 + lab_watch.FRESH_S) == {}


def test_growing_logs_and_uptimes_are_no_change_but_an_isr_that_shrinks_is() -> None:
    grown = look(topic_partitions=[partition("orders", 0, high_watermark=99, isr=["kafka2", "kafka1"])])
    assert changes(facts(look()), facts(grown), {}, now=1.0) == {}
    shrunk = look(topic_partitions=[partition("orders", 0, isr=["kafka1"])])
    assert changes(facts(look()), facts(shrunk), {}, now=1.0) == {("isr", "orders", 0): 1.0}


def test_a_leader_that_moved_stands_out() -> None:
    assert "\x1b[1;7mkafka1" in shown(look(), ("leader", "orders", 0), ansi=True)
    assert "\x1b[1;7m" not in shown(look(), ansi=True)


# -- room


@pytest.mark.parametrize("height", [8, 12, 24, 50])
@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_the_view_is_never_higher_or_wider_than_the_screen(width: int, height: int) -> None:
    many = [partition("a-rather-long-name-of-a-topic", number) for number in range(200)]
    fault = {"fault": "f1", "kind": "cut", "targets": ["kafka1"], "for_s": 1.0, "left_s": None, "proved": "yes " * 90}
    seen = replace(
        look(topic_partitions=many, faults=[{**fault, "broken": None}] * 9, reachable=reach(("kafka1", "client"))),
        groups=tuple(group(f"g{number}", ("app", [["t", 1]]), ("app", None)) for number in range(30)),
        events=({"at": "2026-01-01T10:00:00.123+00:00", "event": "asked", "said": "word " * 90},) * 20,
    )
    lines = shown(seen, width=width, height=height).rstrip("\n").split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_if_not_all_partitions_fit_degraded_ones_are_shown_and_the_others_counted() -> None:
    views = [partition("orders", number) for number in range(40)]
    views[33] = partition("orders", 33, leader=None, isr=[])
    text = shown(look(topic_partitions=views), height=24)
    rows = [line.split()[1] for line in text.splitlines() if line.startswith("orders")]
    assert rows == [*map(str, range(len(rows) - 1)), "33"]
    assert f"{40 - len(rows)} more" in text


def test_each_section_gets_its_minimum_before_any_gets_more() -> None:
    sections = [lab_view._Section(rows=50, rows_min=4, head=2), lab_view._Section(rows=20, rows_min=3, head=1)]
    assert fit(None, sections) == [50, 20]
    assert fit(100, sections) == [50, 20]
    assert fit(20, sections) == [14, 3]
    assert fit(10, sections) == [4, 3]
    assert fit(8, sections) == [6, 0]
    assert fit(2, sections) == [0, 0]


def test_assigned_partitions_are_shown_as_ranges() -> None:
    assert assigned([("b", 1), ("a", 7), ("a", 0), ("a", 2), ("a", 1)]) == "a 0-2 7, b 1"
    assert assigned([]) == "nothing"
    assert assigned(None) == "(in a language of its own)"


def test_a_look_leaves_out_the_proof_every_second_that_a_fault_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(control, "status", lambda name: told())
    monkeypatch.setattr(control, "call", lambda name, verb: {"groups": []})
    directory = LabDirectory.of("demo")
    directory.path.mkdir(parents=True)
    trail = Events(directory.events)
    for event in ("proved", *["held"] * 50, "healed"):
        trail.add(event)
    looker = lab_watch.Looker("demo", 60.0)
    looker.wait(10.0)
    assert looker.latest is not None
    assert [event["event"] for event in looker.latest.events] == ["proved", "healed"]


# -- a terminal is not to obey data


@pytest.mark.proves("F2")
@pytest.mark.parametrize("ansi", [False, True])
def test_hostile_names_are_text(ansi: bool) -> None:
    dead = node("kafka2", "broker", "down", rack=HOSTILE, last_exit=HOSTILE)
    fault = {"fault": "f1", "kind": "cut", "targets": [HOSTILE], "for_s": 1.0, "left_s": None}
    seen = replace(
        look(
            nodes=[node("zk1", "zookeeper"), node("kafka1", "broker"), dead],
            topic_partitions=[partition(HOSTILE, 0)],
            faults=[{**fault, "proved": HOSTILE, "broken": HOSTILE}],
            exposed=HOSTILE,
        ),
        groups=(group(HOSTILE, (HOSTILE, [[HOSTILE, 0]])),),
        events=({"at": "2026-01-01T10:00:00.123+00:00", "event": "asked", "asked": HOSTILE},),
    )
    text = shown(seen, width=300, ansi=ansi)
    assert "\x1b[2J" not in text
    assert not set(text) & {"\x07", "\u202e"}
    assert ("\x1b" in text) is ansi
    assert text.count("[/bold][red]") == 10


# -- a real terminal, and none

PROGRAM = """
import sys, time
from ackproof.cli.ui import lab_watch
from ackproof.core.errors import CannotHere, Problem
from ackproof.lab import client as control
import tests.unit.cli.ui.test_lab_view as t

calls = 0

def status(name):
    global calls
    calls += 1
    if {ends} and calls > 2:
        raise CannotHere("the lab ended")
    if {slow} and calls > 1:
        time.sleep(60)
    return t.told(topic_partitions=[t.partition("orders", 0, leader="kafka%d" % min(calls, 2))])

control.status = status
control.call = lambda name, verb: {{"groups": []}}
try:
    lab_watch.watch_lab("absent", 0.2)
except Problem as problem:
    sys.exit("ended: " + problem.message)
"""


class Terminal:
    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said = b""
        self._master = master

    def read_until(self, wanted: bytes, timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + timeout_s
        while wanted not in self.said:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{wanted!r} did not come: {self.said[-2000:]!r}"
            if select.select([self._master], [], [], left_s)[0]:
                self.said += os.read(self._master, 65536)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def echoes(self) -> bool:
        flags: int = termios.tcgetattr(self._master)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)


def program(*, slow: bool = False, ends: bool = False) -> list[str]:
    text = PROGRAM.format(slow=slow, ends=ends)
    return ["env", f"PYTHONPATH={Path(__file__).parents[4]}", sys.executable, "-c", textwrap.dedent(text)]


@contextmanager
def on_a_terminal(*, slow: bool = False, ends: bool = False, term: str = "xterm") -> Iterator[Terminal]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *program(slow=slow, ends=ends)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": term},
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait(timeout=10)
        os.close(master)


ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.mark.parametrize("key", [b"q", b"\x03"], ids=["q", "Ctrl-C"])
def test_on_a_terminal_a_key_leaves_the_view_and_the_screen_as_it_was(key: bytes) -> None:
    with on_a_terminal() as terminal:
        terminal.read_until(b"every node reaches every other")
        terminal.read_until(b"\x1b[1;7mkafka2")  # the leader moved with the second look
        assert not terminal.echoes()
        terminal.type(key)
        terminal.read_until(LEAVE_SCREEN)
        assert terminal.process.wait(timeout=10) == 0
        assert terminal.echoes()
        assert terminal.said.index(ENTER_SCREEN) < terminal.said.index(b"every node")
        assert b"\x1b[2J" not in terminal.said.partition(b"every node")[2], "a cleared screen flickers"


def test_a_lab_that_does_not_answer_leaves_the_view_alive_with_the_age_of_what_it_shows() -> None:
    with on_a_terminal(slow=True) as terminal:
        terminal.read_until(b"2 s ago, it is slow to answer")
        terminal.type(b"q")
        assert terminal.process.wait(timeout=10) == 0


def test_a_lab_that_goes_down_ends_the_view_with_its_problem() -> None:
    with on_a_terminal(ends=True) as terminal:
        terminal.read_until(b"ended: the lab ended")
        assert terminal.process.wait(timeout=10) == 1
        assert LEAVE_SCREEN in terminal.said.partition(b"ended:")[0]


@pytest.mark.proves("E3")
def test_a_terminal_that_can_only_print_gets_plain_text() -> None:
    with on_a_terminal(term="dumb") as terminal:
        terminal.read_until(b"every node reaches every other")
        assert b"\x1b" not in terminal.said


@pytest.mark.proves("E3")
def test_a_pipe_gets_a_page_for_each_change_and_none_without() -> None:
    with subprocess.Popen(program(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while sum(line == "\n" for line in lines) < 6:  # two pages of three blocks each
            lines.append(process.stdout.readline())
            assert lines[-1], "the program ended"
        time.sleep(1.0)  # some looks more, at the same
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(timeout=10) == 0
    assert sum("demo" in line for line in lines) == 2
    assert rest == ""
