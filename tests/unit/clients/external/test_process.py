"""External clients: what they are given, what becomes of their output, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ackproof.clients.external.event_log import (
    LINE_MOST,
    SHOWN_MOST,
    ConsumerEventLog,
    EventLog,
    ExternalClientConfig,
    ProducerEventLog,
)
from ackproof.clients.external.process import READY_S
from ackproof.clients.runtime import LogEnd, Progress
from ackproof.core.errors import CannotHere, NotProved, UsageProblem
from ackproof.host.processes import KILL_CLIENT, Exit, Process, Processes, below, stopped_threads
from ackproof.journal.stream import read_stream
from ackproof.lab.server.run_commands import disturb
from ackproof.model.external_clients import not_applicable
from ackproof.model.message import pack, unpack, unpack_text
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario
from ackproof.run.external_clients import HostProcesses, filled, require_programs
from ackproof.scenario.load import load
from ackproof.scenario.source import find, read_source
from tests.support.plans import plan_of

ENDS_S = 20.0


def until(condition: Callable[[], Any], what: str, within_s: float = ENDS_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"timed out; waited until {what}"
        time.sleep(0.01)


# -- values and commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"1.0", (0, 0)),
        (b"3.123456", (2, 123456)),
        (b"2.5", (-1, -1)),  # the second producer is our own, and does not write text
        (b"0.5", (-1, -1)),
        (b"01.5", (-1, -1)),
        (b"1.05", (-1, -1)),
        (b"1.5 ", (-1, -1)),
        (b"1.5\n", (-1, -1)),
        (b"5", (-1, -1)),
        (b"", (-1, -1)),
        (None, (-1, -1)),
    ],
)
def test_a_value_names_its_producer_and_its_number(value: bytes | None, found: tuple[int, int]) -> None:
    assert unpack_text(value, [0, 2]) == unpack(value, [0, 2]) == found


def test_binary_values_are_always_read_and_text_values_only_in_runs_with_external_producers() -> None:
    assert unpack(pack(1, 7), [0]) == (1, 7)
    assert unpack(b"1.7") == (-1, -1)


def test_placeholders_are_filled_in_and_other_braces_stay() -> None:
    command = ["x", "--topic={topic}", '{"name":"record_data","partition":%p}', "{count}{rate}", "{HOME}"]
    assert filled(command, {"topic": "orders", "count": 5, "rate": -1}) == [
        "x", "--topic=orders", '{"name":"record_data","partition":%p}', "5-1", "{HOME}",
    ]  # fmt: skip


# -- scenarios ---------------------------------------------------------------------------------------------------------

EXTERNAL = """name = "foreign"
section = "X"
title = "Not ours"
summary = "A command each."

[[topics]]
name = "orders"

[[producers]]
topic = "orders"
count = 100
command = ["my-client", "{bootstrap}", "{topic}", "{producer}", "{count}", "{rate}", "{acks}"]

[[consumers]]
topic = "orders"
group = "readers"
command = ["my-reader", "{bootstrap}", "{topic}", "{group}", "{start}"]

[[faults]]
kind = "stop"
targets = ["consumer:1"]
at_messages = 50

[expect]
lost = "forbidden"
undelivered = "allowed"
"""


def test_a_scenario_with_commands_is_valid() -> None:
    scenario = load(read_source("good.toml", EXTERNAL))
    assert [client.command[0] for client in scenario.clients] == ["my-client", "my-reader"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{rate}", "{rates}", "nothing is filled in for {rates} (did you mean rate?)"),
        ('"{group}"', '"{count}"', "nothing is filled in for {count}: known are {bootstrap}, {topic}, {group}"),
        ('"my-client"', '"kafka-verifyable-producer"', "no tool kafka-verifyable-producer (did you mean verifiable"),
        ("count = 100", "count = 100\nsize = 32", "bad.toml:12: size is for our own clients"),
        ("count = 100", "count = 100\noutbox = { retry_s = 2 }", "outbox is for our own clients"),
        ('group = "readers"', 'group = "readers"\nprotocol = "cooperative"', "protocol is for our own clients"),
        ('group = "readers"', 'group = "readers"\nreceiver = { strategy = "ids" }', "receiver is for our own clients"),
        ('group = "readers"', 'group = "readers"\nalso = ["orders"]', "also is for our own clients"),
        ("count = 100\ncommand = [", 'count = 100\nwhere = "host"\n#', 'where = "host" is for a client with a command'),
        ("count = 100\ncommand = [", "count = 100\n#", "our own producer's values are no text"),
        (
            'kind = "stop"\ntargets = ["consumer:1"]',
            'kind = "restart"\ntargets = ["producer:1"]',
            "is kill, stop, pause",
        ),
        ('lost = "forbidden"', 'failover = "required"', "does not tell when an acknowledgement or an error reached it"),
        ('group = "readers"', 'group = "readers"\nwhere = "host"', "consumer:1 runs on the host"),
        (
            'lost = "forbidden"',
            'ack_latency = "forbidden"',
            "ack_latency cannot be forbidden: it is not applicable, for producer1",
        ),
        ('lost = "forbidden"', 'resurrected = "forbidden"', "does not tell which sends certainly failed"),
        ('undelivered = "allowed"', 'ownership_gap = "required"', "consumer1 does not tell when exactly it owned"),
        (
            'lost = "forbidden"\n',
            'lost = "forbidden"\n[[claims]]\nat = "end"\npartitions = "orders/0"\nacked = true\n[expect_kraft]\n',
            "acked cannot be claimed, for producer1 does not tell when an acknowledgement reached it",
        ),
    ],
)
def test_mistakes_about_an_external_client_are_reported_before_the_run(old: str, new: str, said: str) -> None:
    assert old in EXTERNAL
    with pytest.raises(UsageProblem) as caught:
        load(read_source("bad.toml", EXTERNAL.replace(old, new, 1)))
    assert said in "\n".join([caught.value.message, *caught.value.details])


def test_an_external_client_may_be_paused() -> None:
    load(read_source("good.toml", EXTERNAL.replace('kind = "stop"', 'kind = "pause"\nuntil_messages = 70')))


def test_a_check_that_an_external_client_cannot_answer_may_be_allowed() -> None:
    load(read_source("good.toml", EXTERNAL.replace('undelivered = "allowed"', 'ack_latency = "allowed"')))


def test_only_checks_that_external_clients_cannot_answer_are_not_applicable() -> None:
    ours, theirs = ({"copies": 2}, {"copies": 2, "command": ["x"]})
    assert not_applicable(plan_of({"producers": [ours], "consumers": [ours]})) == {}
    by_producers = not_applicable(plan_of({"producers": [ours, theirs], "consumers": [ours]}))
    assert by_producers["rate"] == "producer3, producer4 do not tell when a send was made"
    assert "ownership_gap" not in by_producers
    by_consumers = not_applicable(plan_of({"producers": [ours], "consumers": [theirs]}))
    assert set(by_consumers) == {"dual_ownership", "ownership_gap", "rebalances", "commit_regression"}
    from_the_end = not_applicable(plan_of({"producers": [ours], "consumers": [{**theirs, "start": "latest"}]}))
    assert from_the_end["undelivered"] == "consumer1, consumer2 do not tell from where on a partition was read"


def test_a_missing_program_is_reported_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load(find("foreign-kcat"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotHere, match="foreign-kcat needs the program kcat, and there is none here: install it"):
        require_programs(scenario)


def test_the_first_word_of_a_command_is_a_tool_of_kafka_or_a_program_of_the_host() -> None:
    def scenario(*commands: list[str]) -> Scenario:
        producers = [ProducerPlan("orders", 1, command=command) for command in commands]
        return Scenario("x", "X", "x", "x", producers, [], consumers=[ConsumerPlan("orders", "g")])

    require_programs(scenario(["sh"], ["kafka-verifiable-producer"], []))
    with pytest.raises(CannotHere, match="needs the program no-such-program"):
        require_programs(scenario(["sh"], ["no-such-program"]))


# -- what they print ---------------------------------------------------------------------------------------------------

ACK = '{"name":"producer_send_success","key":null,"value":"1.%d","topic":"orders","partition":0,"offset":%d}'
ERROR = '{"name":"producer_send_error","value":"1.%d","topic":"orders","exception":"class a.TimeoutException"}'

READS = [
    '{"name":"startup_complete"}',
    '{"name":"partitions_assigned","partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}',
    '{"name":"record_data","key":null,"value":"1.4","topic":"orders","partition":1,"offset":0}',
    '{"name":"record_data","key":null,"value":"junk","topic":"orders","partition":1,"offset":1}',
    '{"name":"records_consumed","count":2,"partitions":[]}',
    '{"name":"offsets_committed","offsets":[{"topic":"orders","partition":1,"offset":2}],"success":false,"error":"no"}',
    '{"name":"partitions_revoked","partitions":[{"topic":"orders","partition":0}]}',
]


def told(folder: Path, kind: str, code: str = "") -> ExternalClientConfig:
    return ExternalClientConfig(
        run=1, directory=str(folder), kind=kind, id=0, name=f"{kind}1", journal=f"{kind}1",  # type: ignore[arg-type]
        topic="orders", topic_id=0, command=[sys.executable, "-u", "-c", textwrap.dedent(code)], folder=str(folder),
        progress=str(folder / "progress"), external=[0], go=str(folder / "go") if kind == "producer" else None, count=5,
    )  # fmt: skip


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    (path,) = (folder / "journal" / table).iterdir()
    found: list[dict[str, Any]] = read_stream(path)[0].to_pylist()
    return found


def sends(folder: Path) -> list[tuple[Any, ...]]:
    return [(row["seq"], row["outcome"], row["offset"], row["error"]) for row in rows(folder, "sends")]


def oddities(folder: Path) -> list[tuple[str, str]]:
    return [(row["event"], row["text"]) for row in rows(folder, "oddities")]


def heard(events: EventLog, *lines: str) -> None:
    """Pass these lines to the event log, one per millisecond from 1 ms on, and close it."""
    for number, line in enumerate(lines, start=1):
        events.hear(line.encode(), number * 1_000_000)
    events.close(9_000_000)


class Client:
    """The process under test, with a small Python program as its client."""

    def __init__(self, folder: Path, kind: str, code: str) -> None:
        (folder / "logs").mkdir(exist_ok=True)
        self.folder = folder
        (folder / "config.json").write_bytes(msgspec.json.encode(told(folder, kind, code)))
        (folder / "go").write_text(str(time.monotonic_ns()))
        self.log = (folder / "listener.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ackproof.clients.external.process", str(folder / "config.json")],
            stdout=self.log,
            stderr=self.log,
        )

    def ended(self) -> int:
        code = self.process.wait(ENDS_S)
        self.log.close()
        return code


def test_the_events_of_a_producer_go_to_the_journal(tmp_path: Path) -> None:
    lines = ['{"name":"startup_complete"}', ACK % (0, 7), ACK % (2, 9), ERROR % 1, '{"name":"shutdown_complete"}']
    lines.append('{"name":"tool_data","sent":3,"acked":2}')
    before = time.monotonic_ns()
    assert Client(tmp_path, "producer", f"print({chr(10).join(lines)!r})").ended() == 0
    assert sends(tmp_path) == [(0, "ok", 7, None), (2, "ok", 9, None), (1, "info", None, "a.TimeoutException")]
    assert oddities(tmp_path) == []
    (block,) = rows(tmp_path, "blocks")
    assert (block["first_seq"], block["count"], block["used"]) == (0, 5, None)
    row = rows(tmp_path, "sends")[0]
    assert before < block["at_ns"] < row["due_ns"] == row["sent_ns"] == row["done_ns"] < time.monotonic_ns()
    assert Progress(tmp_path / "progress").read() == {
        "ready": 1, "sent": 3, "acked": 2, "failed": 0, "unknown": 1, "done": 1, "owned": 0, "read_whole": 0,
    }  # fmt: skip
    assert (tmp_path / "logs" / "producer1.out.log").read_text().splitlines() == lines


def test_an_acknowledgement_may_lack_partition_and_offset(tmp_path: Path) -> None:
    heard(ProducerEventLog(told(tmp_path, "producer"), 0), '{"name":"producer_send_success","value":"1.3"}')
    assert sends(tmp_path) == [(3, "ok", None, None)]
    assert rows(tmp_path, "sends")[0]["partition"] == -1


def test_a_value_that_failed_first_and_is_acknowledged_later_counts_as_acknowledged(tmp_path: Path) -> None:
    heard(ProducerEventLog(told(tmp_path, "producer"), 0), ERROR % 0, ACK % (0, 4))
    assert (sends(tmp_path), oddities(tmp_path)) == ([(0, "ok", 4, None)], [])


@pytest.mark.parametrize(
    ("lines", "event", "said"),
    [
        (["hello"], "no event", "line 1, 'hello'"),
        (["[1]"], "no event", "line 1, '[1]': Expected `object`"),
        (['{"value":"1.0"}'], "no event", "missing required field `name`"),
        (['{"name":"producer_send_success","offset":1}'], "no event", "producer_send_success without value"),
        (['{"name":"producer_send_success","value":1.0}'], "no event", "Expected `str | null`, got `float`"),
        ([(ACK % (0, 1)).replace("1.0", "0")], "not ours", "the value '0'; it was given 1.0 to 1.4"),
        ([ACK % (1, 2**63)], "no event", "Expected `int` <= 9223372036854775807 - at `$.offset`"),
        ([ACK % (1, 2**64)], "no event", "`$.offset`"),
        (
            [(ACK % (1, 0)).replace('n":0', f'n":{2**31}')],
            "no event",
            "Expected `int` <= 2147483647 - at `$.partition`",
        ),
        (["x" * (LINE_MOST + 1)], "no event", "longer than"),
        (['{"name":"producer_send_success","value":"\\ud800"}'], "no event", "line 1"),
        ([ACK % (5, 1)], "not ours", "the value '1.5'"),
        ([(ACK % (0, 1)).replace("orders", "other")], "not ours", "topic 'other' instead of 'orders'"),
        ([ACK % (0, 1), ACK % (0, 1)], "twice", "line 2: 1.0 acknowledged at 0/1, and before at 0/1"),
        ([ERROR % 0, ERROR % 0], "twice", "1.0 failed, and it had failed before"),
        ([ACK % (0, 1), ACK % (0, 2)], "contradiction", "1.0 acknowledged at 0/2, and before at 0/1"),
        ([ACK % (0, 1), ERROR % 0], "contradiction", "1.0 failed, and before it was acknowledged"),
        (['{"name":"coffee"}'], "unknown event", "line 1: 'coffee'"),
        ([ACK % (0, 1), '{"name":"tool_data","acked":2}'], "miscount", "2 acknowledged by its own count, 1 by its"),
    ],
)
def test_output_that_is_no_valid_event_is_an_oddity(tmp_path: Path, lines: list[str], event: str, said: str) -> None:
    heard(ProducerEventLog(told(tmp_path, "producer"), 0), *lines)
    ((found, text),) = oddities(tmp_path)
    assert found == event
    assert said in text
    acked = any("success" in line and '"1.0"' in line and "other" not in line for line in lines)
    failed = not acked and any("error" in line for line in lines)
    assert [row[:2] for row in sends(tmp_path)] == [(0, "ok")] * acked + [(0, "info")] * failed


def test_the_largest_numbers_of_kafka_are_accepted(tmp_path: Path) -> None:
    heard(ProducerEventLog(told(tmp_path, "producer"), 0), (ACK % (1, 2**63 - 1)).replace('n":0', f'n":{2**31 - 1}'))
    assert sends(tmp_path) == [(1, "ok", 2**63 - 1, None)]
    assert rows(tmp_path, "sends")[0]["partition"] == 2**31 - 1


@pytest.mark.parametrize(
    "line",
    [
        READS[2].replace(":1,", f":{2**31},"),
        READS[2].replace('"offset":0', f'"offset":{2**63}'),
        READS[1].replace(":1}", f":{2**31}}}"),
        READS[5].replace(":2}", f":{2**63}}}"),
    ],
)
def test_a_number_beyond_kafkas_range_is_no_event(tmp_path: Path, line: str) -> None:
    heard(ConsumerEventLog(told(tmp_path, "consumer")), line)
    assert [event for event, _ in oddities(tmp_path)] == ["no event"]
    assert [rows(tmp_path, table) for table in ("reads", "groups", "commits")] == [[], [], []]


@pytest.mark.parametrize(
    "line",
    [
        ACK.replace("1.%d", "v" * 9_000) % 1,
        (ACK % (0, 1)).replace("orders", "t" * 9_000),
        '{"name":"%s"}' % ("n" * 9_000),
        ERROR.replace("a.Timeout", "e" * 9_000) % 0,
        "x" * 9_000,
    ],
)
def test_only_the_beginning_of_a_long_text_is_kept(tmp_path: Path, line: str) -> None:
    heard(ProducerEventLog(told(tmp_path, "producer"), 0), line)
    shown = [text for _, text in oddities(tmp_path)] + [error for *_, error in sends(tmp_path)]
    assert len(shown) == 1
    assert len(shown[0]) < 3 * SHOWN_MOST


def test_a_huge_line_is_not_kept_in_memory_and_the_next_line_is_read(tmp_path: Path) -> None:
    code = f"""
    import os
    def most():
        lines = open(f"/proc/{{os.getppid()}}/status").read().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    before = most()
    for _ in range(40):
        print("x" * {LINE_MOST}, end="")
    print()
    print({ACK % (0, 0)!r})
    open("grown", "w").write(str(most() - before))
    """
    assert Client(tmp_path, "producer", code).ended() == 0
    assert int((tmp_path / "grown").read_text()) < 20_000
    assert [event for event, _ in oddities(tmp_path)] == ["no event"]
    assert sends(tmp_path) == [(0, "ok", 0, None)]


def test_a_huge_last_line_is_no_event(tmp_path: Path) -> None:
    Client(tmp_path, "producer", f"print('x' * {3 * LINE_MOST}, end='')").ended()
    assert [event for event, _ in oddities(tmp_path)] == ["no event"]


def test_after_an_error_of_its_own_the_process_dies_by_a_signal(tmp_path: Path) -> None:
    config = msgspec.structs.replace(told(tmp_path, "producer"), journal="no/such/folder")
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    words = [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert "FileNotFoundError" in done.stderr


def test_the_first_thousand_oddities_of_a_kind_are_kept(tmp_path: Path) -> None:
    heard(ProducerEventLog(told(tmp_path, "producer"), 0), *["x"] * 1_500)
    assert len(oddities(tmp_path)) == 1_000


def test_the_exit_code_and_the_last_lines_of_a_failed_client_are_printed(tmp_path: Path) -> None:
    end = f"import sys, os; sys.stderr.write('no more'); os.write(1, b'{(ACK % (1, 1))[:20]}'); sys.exit(3)"
    client = Client(tmp_path, "producer", f"print('{ACK % (0, 0)}')\n{end}")
    assert client.ended() == 3
    assert sends(tmp_path) == [(0, "ok", 0, None)]
    assert [event for event, _ in oddities(tmp_path)] == ["torn line"]
    said = (tmp_path / "listener.log").read_text()
    assert "producer1: the client ended with exit code 3; its last lines:\n  no more" in said


def test_a_whole_last_line_without_a_newline_is_read(tmp_path: Path) -> None:
    Client(tmp_path, "producer", f"print('{ACK % (0, 0)}', end='')").ended()
    assert (sends(tmp_path), oddities(tmp_path)) == ([(0, "ok", 0, None)], [])


def test_a_client_that_prints_nothing_makes_no_rows(tmp_path: Path) -> None:
    assert Client(tmp_path, "producer", "").ended() == 0
    assert (sends(tmp_path), oddities(tmp_path)) == ([], [])
    assert rows(tmp_path, "blocks")[0]["count"] == 5


def test_a_killed_client_ends_with_the_exit_code_of_its_signal(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert client.ended() == 128 + signal.SIGKILL
    assert "ended with SIGKILL" in (tmp_path / "listener.log").read_text()


def test_a_command_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", "")
    client.process.kill()
    client.ended()
    config = msgspec.json.decode((tmp_path / "config.json").read_bytes())
    config |= {"command": ["no-such-program"], "journal": "again"}
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    done = subprocess.run(
        [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert done.stdout.startswith("producer1: no-such-program cannot be started")
    assert done.stderr == ""


def test_the_events_of_a_consumer_go_to_the_journal(tmp_path: Path) -> None:
    heard(ConsumerEventLog(told(tmp_path, "consumer")), *READS)
    reads = [(row["partition"], row["offset"], row["producer"], row["seq"]) for row in rows(tmp_path, "reads")]
    assert reads == [(1, 0, 0, 4), (1, 1, -1, -1)]
    assert [(row["poll"], row["assignment"]) for row in rows(tmp_path, "reads")] == [(1, 1), (2, 1)]
    groups = [(row["event"], row["partition"], row["position"]) for row in rows(tmp_path, "groups")]
    assert groups == [("assigned", 0, None), ("assigned", 1, None), ("revoked", 0, None)]
    assert [(row["offset"], row["outcome"], row["error"]) for row in rows(tmp_path, "commits")] == [(2, "info", "no")]
    assert oddities(tmp_path) == []


def test_a_consumer_has_read_a_partition_whole_when_it_printed_the_last_message(tmp_path: Path) -> None:
    """Never before the end of the load: the last message is not known before. An empty partition is read whole."""
    events = ConsumerEventLog(msgspec.structs.replace(told(tmp_path, "consumer"), over=str(tmp_path / "over")))
    for line in READS[:4]:
        events.hear(line.encode(), 1)
    assert events.read_whole() == 0
    ends = [LogEnd(0, 0, 3, 3), LogEnd(0, 1, 0, 3), LogEnd(1, 0, 0, 0)]
    (tmp_path / "over").write_bytes(msgspec.json.encode(ends))
    assert events.read_whole() == 1
    events.hear(READS[2].replace('"offset":0', '"offset":2').encode(), 1)
    assert events.read_whole() == 2
    events.close(2)
    positions = [(row["partition"], row["position"], row["log_end"]) for row in rows(tmp_path, "positions")]
    assert positions == [(1, 3, None)]


def test_a_consumer_that_reads_more_than_it_prints_is_an_oddity(tmp_path: Path) -> None:
    heard(ConsumerEventLog(told(tmp_path, "consumer")), READS[4])
    assert oddities(tmp_path) == [("miscount", "2 read by its own count, 0 printed; give it an option like --verbose")]


def test_a_consumer_is_ready_when_it_has_partitions_and_ends_on_sigterm(tmp_path: Path) -> None:
    code = f"""
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print({READS[6]!r}), sys.exit(0)))
    print({READS[0]!r})
    while True:
        time.sleep(0.1)
        print({READS[1]!r})
    """
    client = Client(tmp_path, "consumer", code)
    page = tmp_path / "progress"
    until(lambda: page.exists() and Progress(page).read()["ready"], "it is ready", within_s=READY_S - 3)
    client.process.terminate()
    assert client.ended() == 0
    events = [row["event"] for row in rows(tmp_path, "groups")]
    assert (events[0], events[-1]) == ("assigned", "revoked")


# -- how they end ------------------------------------------------------------------------------------------------------

# A client that starts two other processes, one of them in its own session, ignores SIGTERM, and would never end.
LASTING = """
import os, signal, subprocess, sys, time
lasting = [sys.executable, "-c", "import time; time.sleep(600)"]
others = [subprocess.Popen(lasting, start_new_session=away) for away in (False, True)]
open("pids", "w").write(" ".join(str(pid) for pid in (os.getpid(), *(other.pid for other in others))))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _pids(folder: Path) -> list[int]:
    path = folder / "pids"
    until(lambda: path.exists() and path.stat().st_size > 0, "the client runs")
    return [int(pid) for pid in path.read_text().split()]


@pytest.mark.proves("A3")
def test_a_client_that_ignores_sigterm_is_killed_with_everything_that_it_started(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", LASTING)
    pids = _pids(tmp_path)
    client.process.terminate()
    client.ended()
    until(lambda: not any(map(_lives, pids)), "nothing of the client is left")
    assert rows(tmp_path, "sends") == []


@pytest.mark.proves("A3")
def test_a_client_does_not_outlive_the_process_that_reads_it(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", LASTING)
    itself, *others = _pids(tmp_path)
    client.process.kill()
    client.ended()
    until(lambda: not _lives(itself), "the client is gone")
    for other in others:
        os.kill(other, signal.SIGKILL)  # a run would end the client's own children, and here is none


@pytest.mark.proves("A3")
@pytest.mark.parametrize("by_us", [True, False], ids=["by the run", "by another"])
def test_a_run_ends_what_is_left_of_a_client_on_the_host_after_its_reader_was_killed(
    tmp_path: Path, by_us: bool
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "go").touch()
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(told(tmp_path, "producer", LASTING)))
    host = HostProcesses()
    words = [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")]
    host.spawn("producer1", words, tmp_path / "log")
    pids = _pids(tmp_path)
    if by_us:
        host.signal("producer1", "SIGKILL")
    else:
        host._running["producer1"].kill()
        until(lambda: host.exits() == {"producer1": [None, 9]}, "it is seen to be dead")
    until(lambda: not any(map(_lives, pids)), "nothing of it is left")


@pytest.mark.proves("A3")
def test_a_process_whose_parent_is_already_dead_dies_too() -> None:
    die = "from ackproof.host.namespaces import die_with_parent; die_with_parent(9, int(sys.argv[1]))"
    code = f"import sys; {die}; print(1)"
    for parent, told in ((os.getpid(), b"1\n"), (os.getppid(), b"")):
        done = subprocess.run([sys.executable, "-c", code, str(parent)], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (0 if told else -signal.SIGKILL, told)


@pytest.mark.proves("A3")
def test_a_process_on_the_host_ends_if_its_run_is_gone(tmp_path: Path) -> None:
    config = msgspec.structs.replace(told(tmp_path, "producer"), parent=os.getppid())  # and the load never begins
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    words = [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")]
    assert subprocess.run(words, check=False, timeout=ENDS_S).returncode == 0


@pytest.mark.proves("A3")
def test_nothing_of_a_client_on_the_host_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """A shell takes the place of the run, so the process reads its parent's id itself."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "go").touch()
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(told(tmp_path, "producer", LASTING)))
    listens = f"""
    import msgspec, os, sys
    from pathlib import Path
    from ackproof.clients.external import process as external
    from ackproof.clients.runtime import read_config
    external.read_config = lambda kind: msgspec.structs.replace(read_config(kind), parent=os.getppid())
    sys.argv = ["", {str(tmp_path / "config.json")!r}]
    sys.exit(external.main())
    """
    run = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {textwrap.dedent(listens)!r}])"
    with subprocess.Popen([sys.executable, "-c", run]) as started:
        pids = _pids(tmp_path) + below(started.pid)
        assert len(set(pids)) == 4  # with the process that reads the client
        started.kill()
    until(lambda: not any(map(_lives, pids)), "nothing of it is left")


def test_the_output_of_a_killed_client_is_read_to_the_last_line(tmp_path: Path) -> None:
    """The process that reads it is stopped while the client prints, and reads those lines later."""
    code = f"""
    import os, time
    open("pids", "w").write(str(os.getpid()))
    while not os.path.exists("print"):
        time.sleep(0.01)
    for number in range(5):
        print({ACK!r} % (number, number))
    open("printed", "w")
    time.sleep(600)
    """
    client = Client(tmp_path, "producer", code)
    (pid,) = _pids(tmp_path)
    client.process.send_signal(signal.SIGSTOP)
    (tmp_path / "print").touch()
    until((tmp_path / "printed").exists, "it has printed")
    client.process.send_signal(KILL_CLIENT)
    client.process.send_signal(signal.SIGCONT)
    assert client.ended() == 128 + signal.SIGKILL
    assert not _lives(pid)
    assert [row[0] for row in sends(tmp_path)] == [0, 1, 2, 3, 4]
    assert len((tmp_path / "logs" / "producer1.out.log").read_text().splitlines()) == 5
    assert (tmp_path / "listener.log").read_text() == ""


def test_a_client_that_a_fault_killed_did_not_end_by_itself(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", f"print({ACK % (0, 0)!r})\n{LASTING}")
    pids = _pids(tmp_path)
    exits: list[Exit] = []
    processes = Processes(lambda _, how: exits.append(how))
    processes._running["producer1"] = Process(client.process.pid, os.pidfd_open(client.process.pid))
    server: Any = SimpleNamespace(lab=SimpleNamespace(processes=processes))
    request: Any = {"kind": "kill", "processes": ["producer1"], "heard": ["producer1"]}

    def reaped() -> bool:
        processes.reap()
        return bool(exits)

    reaping = threading.Thread(target=until, args=(reaped, "it has ended"))
    reaping.start()
    assert disturb(server, request)["said"] == ["producer1: exit code 137"]
    reaping.join()
    client.ended()  # `processes` has reaped it, so its exit code is not known here
    assert (exits[0].code, exits[0].asked) == (128 + signal.SIGKILL, True)
    assert not any(map(_lives, pids))
    assert sends(tmp_path) == [(0, "ok", 0, None)]


def test_the_output_of_a_client_that_ignores_sigterm_is_read_to_the_last_line(tmp_path: Path) -> None:
    code = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("pids", "w").write(str(os.getpid()))
    number = 0
    while True:
        time.sleep(0.001)
        print('{"name":"coffee"}')
        number += 1
        open("count.new", "w").write(str(number))
        os.rename("count.new", "count")
    """
    client = Client(tmp_path, "producer", code)
    _pids(tmp_path)
    client.process.terminate()
    client.ended()
    heard = (tmp_path / "logs" / "producer1.out.log").read_bytes().count(b"\n")
    assert heard - 1 <= int((tmp_path / "count").read_text()) <= heard


def test_every_descendant_is_known_even_in_another_session(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", LASTING)
    pids = _pids(tmp_path)
    assert sorted(below(client.process.pid)) == sorted(pids)
    client.process.send_signal(KILL_CLIENT)
    client.ended()


def test_a_paused_client_is_stopped_with_its_descendants_and_the_process_that_reads_it_is_not(tmp_path: Path) -> None:
    client = Client(tmp_path, "producer", LASTING)
    pids = _pids(tmp_path)
    processes = Processes(lambda *_: None)
    processes._running["producer1"] = Process(client.process.pid, os.pidfd_open(client.process.pid))
    with processes.frozen("producer1", heard=True) as (prove, prove_over):
        assert prove() == "every thread of producer1 is stopped"
        assert all(map(stopped_threads, pids))
        assert not stopped_threads(client.process.pid)
        os.kill(pids[1], signal.SIGCONT)
        with pytest.raises(NotProved):
            prove()
    assert not any(map(stopped_threads, pids))
    assert prove_over() == "producer1 is running"
    client.process.send_signal(KILL_CLIENT)
    client.ended()


def test_a_process_that_ended_before_it_could_be_paused_is_not_a_usage_problem() -> None:
    with pytest.raises(NotProved, match="producer1 ended meanwhile"), Processes(lambda *_: None).frozen("producer1"):
        pass


def test_orphans_of_a_client_are_reaped_while_it_works(tmp_path: Path) -> None:
    code = """
    import os, subprocess, time
    for _ in range(5):
        subprocess.run(["sh", "-c", "sleep 0.01 &"])
    time.sleep(0.5)
    stats = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stats.append(open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[:2])
        except OSError:  # a process of another test that has ended meanwhile
            pass
    open("left", "w").write(str(sum(each == ["Z", str(os.getppid())] for each in stats)))
    """
    assert Client(tmp_path, "producer", code).ended() == 0
    assert (tmp_path / "left").read_text() == "0"


def test_a_process_that_keeps_the_output_of_an_ended_client_open_is_killed_soon(tmp_path: Path) -> None:
    code = f"""
    import os, subprocess, sys
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("pids", "w").write(str(other.pid))
    print({ACK % (0, 0)!r})
    """
    client = Client(tmp_path, "producer", code)
    assert client.ended() == 0
    assert sends(tmp_path) == [(0, "ok", 0, None)]
    (other,) = _pids(tmp_path)
    until(lambda: not _lives(other), "the process that it left behind is gone")


def test_how_processes_on_the_host_ended_is_known(tmp_path: Path) -> None:
    host = HostProcesses()
    host.spawn("producer1", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    host.spawn("consumer1", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    until(lambda: "producer1" in host.exits(), "the first has ended")
    assert "consumer1" in host
    assert host.exits() == {"producer1": [3, None]}
    assert list(host.newly_ended()) == [{"node": "producer1", "code": 3, "signal": None, "by_itself": True}]
    host.signal("consumer1", "SIGKILL")
    until(lambda: "consumer1" in host.exits(), "the second has ended")
    assert list(host.newly_ended()) == [{"node": "consumer1", "code": None, "signal": 9, "by_itself": False}]
