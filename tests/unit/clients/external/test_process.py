"""The process that runs an external client: what it reads, and how the client ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ackproof.clients.external.event_log import (
    LINE_MOST,
)
from ackproof.clients.external.process import READY_S
from ackproof.clients.runtime import Progress
from ackproof.core.errors import NotProved
from ackproof.host.processes import KILL_CLIENT, Exit, Process, Processes, below, stopped_threads
from ackproof.lab.directory import LabDirectory
from ackproof.lab.faults.clients import inject_at_clients
from ackproof.lab.faults.injection import Injection
from ackproof.lab.requests import InjectAtClients
from ackproof.model.faults import Kill
from ackproof.run.host_processes import HostProcesses
from tests.support.external_client import ACK, ENDS_S, ERROR, Client, client_config, oddities, rows, sends, until

READS = [
    '{"name":"startup_complete"}',
    '{"name":"partitions_assigned","partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}',
    '{"name":"record_data","key":null,"value":"1.4","topic":"orders","partition":1,"offset":0}',
    '{"name":"record_data","key":null,"value":"junk","topic":"orders","partition":1,"offset":1}',
    '{"name":"records_consumed","count":2,"partitions":[]}',
    '{"name":"offsets_committed","offsets":[{"topic":"orders","partition":1,"offset":2}],"success":false,"error":"no"}',
    '{"name":"partitions_revoked","partitions":[{"topic":"orders","partition":0}]}',
]


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
    config = msgspec.structs.replace(client_config(tmp_path, "producer"), journal="no/such/folder")
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    words = [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert "FileNotFoundError" in done.stderr


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
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(client_config(tmp_path, "producer", LASTING)))
    host = HostProcesses()
    words = [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")]
    host.spawn("producer1", words, tmp_path / "log")
    pids = _pids(tmp_path)
    if by_us:
        host.signal("producer1", "SIGKILL")
    else:
        host._running["producer1"].kill()
        until(lambda: host.exits() == {"producer1": (None, 9)}, "it is seen to be dead")
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
    config = msgspec.structs.replace(
        client_config(tmp_path, "producer"), parent=os.getppid()
    )  # and the load never begins
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    words = [sys.executable, "-m", "ackproof.clients.external.process", str(tmp_path / "config.json")]
    assert subprocess.run(words, check=False, timeout=ENDS_S).returncode == 0


@pytest.mark.proves("A3")
def test_nothing_of_a_client_on_the_host_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """A shell takes the place of the run, so the process reads its parent's id itself."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "go").touch()
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(client_config(tmp_path, "producer", LASTING)))
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
    lab: Any = SimpleNamespace(processes=processes)
    request = InjectAtClients(Kill(["producer:1"]), ["producer1"], heard=["producer1"])

    def reaped() -> bool:
        processes.reap()
        return bool(exits)

    reaping = threading.Thread(target=until, args=(reaped, "it has ended"))
    reaping.start()
    assert inject_at_clients(Injection(lab, LabDirectory(tmp_path)), request).said == ["producer1: exit code 137"]
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
