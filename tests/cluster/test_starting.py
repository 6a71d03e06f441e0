"""Small labs that start, or cannot start, or are interrupted while they start."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ackproof.kafka.distribution.jars import DEFAULT_ZOOKEEPER
from ackproof.lab.cluster import START_S
from ackproof.lab.launch import EXPOSED_PORT_FIRST
from ackproof.model.run_record import read_record
from tests.support import crippled
from tests.support.proving import size
from tests.support.real_lab import (
    NEVER_SERVES,
    Identity,
    RealLab,
    User,
    a_java,
    alive,
    an_ordinary_user,
    assert_clean,
    host,
    lab,
    link_or_copy,
    mentioning,
    on_the_host,
    ourselves,
    processes_of,
    wait_until,
    with_an_empty_cache,
    with_brokers_that_never_serve,
    with_loopback_only,
    without_network,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

SMALL = ("--brokers", "1", "--quorum", "1")


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.fixture(scope="module")
def ordinary() -> Iterator[User]:
    with an_ordinary_user() as user:
        yield user


def nothing_left(user: User, name: str) -> bool:
    """Return whether no process of the lab is left, and its name is free."""
    return not mentioning(f"{user.state}/ackproof/labs/{name}") and RealLab(user, name).run("status").returncode == 2


# -- up and down -----------------------------------------------------------------------------------------------------


@pytest.mark.proves("F7")
def test_a_zookeeper_lab_starts_serves_and_ends_without_root_and_network(
    ordinary: User, record_property: Callable[[str, object], None]
) -> None:
    before = host()
    made = RealLab(ordinary, "small")
    try:
        up = made.run("up", *SMALL, first=without_network)
        assert up.returncode == 0, up.stderr
        processes = processes_of(made.status()["supervisor_pid"])
        made.topic("create", "orders")
        assert "orders" in made.topic("describe")
        assert made.connect("client", "kafka1", 9092) == "connected"
        assert made.run("down", first=without_network).returncode == 0
        wait_until(lambda: not alive(processes), "every process is gone")
        assert not made.folder.exists()
    finally:
        made.close()
    assert host() == before
    record_property("figure", "`up` and `down` from the cache, in a network namespace without even loopback")


SHORT = """
name = "short"
section = "A"
title = "A short run"
summary = "A broker is paused for a moment."

[cluster]
brokers = 1
quorum = 1

[[topics]]
name = "orders"
replication = 1

[[producers]]
topic = "orders"
count = 400
rate = 40

[[faults]]
kind = "pause"
targets = ["kafka1"]
at_messages = 100
until_messages = 200

[expect]
lost = "forbidden"
"""


@pytest.mark.long
@pytest.mark.proves("F7")
@pytest.mark.timeout(900)
def test_with_fetched_jars_a_scenario_is_run_and_judged_with_loopback_only(
    us: User, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT)
    for mode in ("zookeeper", "kraft"):
        asked = ("run", str(scenario), "--mode", mode, "--out", str(tmp_path / mode), "--json")
        done = us.run(*asked, timeout_s=440, first=with_loopback_only)
        assert done.returncode == 0, done.stderr
        (told,) = json.loads(done.stdout)["runs"]
        assert (told["result"], told["sent"], told["acked"], told["lost"]) == ("confirmed", 400, 400, 0)
    record_property("figure", "`run`, judged, with ZooKeeper and with KRaft, from the cache: loopback and nothing else")


@pytest.mark.proves("A5", "E4")
@pytest.mark.timeout(300)
def test_labs_at_the_same_time_do_not_meet_and_killing_one_does_not_harm_the_others(
    us: User, ordinary: User, record_property: Callable[[str, object], None]
) -> None:
    users = size([us], [us, ordinary])
    labs = [RealLab(user, name) for user in users for name in ("one", "another")]
    with ExitStack() as stack:
        stack.enter_context(taken(EXPOSED_PORT_FIRST))
        modes = cycle(["zookeeper", "kraft"])
        starting = [
            each.user.start("up", "--name", each.name, *SMALL, "--mode", next(modes), "--expose") for each in labs
        ]
        for each, up in zip(labs, starting, strict=True):
            stack.callback(each.close)
            _, err = up.communicate(timeout=240)
            assert up.returncode == 0, err
        told = [each.status() for each in labs]
        processes = [processes_of(each["supervisor_pid"]) for each in told]
        assert len({each["nodes"][-2]["address"] for each in told}) == 1, "the same addresses, in networks apart"
        for held in ([each["exposed"].split(",") for each in told], map(networks, processes), map(files, processes)):
            assert_nothing_shared([set(each) for each in held])
        clusters = [AdminClient({"bootstrap.servers": each["exposed"]}).list_topics(timeout=30) for each in told]
        assert len({each.cluster_id for each in clusters}) == len(labs)
        for exposed, cluster in zip([each["exposed"] for each in told], clusters, strict=True):
            assert [f"{broker.host}:{broker.port}" for broker in cluster.brokers.values()] == [exposed]
            assert exposed != f"127.0.0.1:{EXPOSED_PORT_FIRST}", "the port is in use"
        labs[0].do("cut", "kafka1", "client")
        assert [each.connect("client", "kafka1", 9092) for each in labs] == ["silent", *["connected"] * len(labs[1:])]
        os.kill(told[0]["supervisor_pid"], signal.SIGKILL)
        wait_until(lambda: not alive(processes[0]), "every process of the killed lab is gone")
        for each, before in zip(labs[1:], told[1:], strict=True):
            assert lives(each.status()) == lives(before)
            assert each.connect("client", "kafka1", 9092) == "connected"
            each.do("down")
        wait_until(lambda: not alive(set().union(*processes)), "every process of the others is gone")
    whose = f"{len(labs)} labs of {'one user' if len(users) == 1 else 'root and an ordinary user'} at once"
    record_property("figure", f"{whose} on ports of their own, one killed, {len(labs) - 1} unharmed")


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Yield a port of the host in use, by us unless another program uses it already."""
    with socket.socket() as held:
        with suppress(OSError):
            held.bind(("127.0.0.1", port))
            held.listen()
        yield


def lives(status: dict[str, Any]) -> dict[str, tuple[int, str]]:
    return {node["name"]: (node["pid"], node["state"]) for node in status["nodes"]}


def networks(processes: set[Identity]) -> Iterator[str]:
    for pid, _ in processes:
        yield str(Path(f"/proc/{pid}/ns/net").readlink())


def files(processes: set[Identity]) -> Iterator[str]:
    """Return the files that these processes hold open for writing."""
    for pid, _ in processes:
        for number in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                flags = int(Path(f"/proc/{pid}/fdinfo/{number.name}").read_text().split()[3], 8)
                if flags & os.O_ACCMODE and (name := str(number.readlink())).startswith("/") and name != "/dev/null":
                    yield name


def assert_nothing_shared(held: list[set[str]]) -> None:
    assert all(held)
    assert sum(map(len, held)) == len(set().union(*held))


@pytest.mark.proves("A3")
def test_a_lab_whose_supervisor_is_stopped_can_be_ended(us: User) -> None:
    with lab(us, "stuck", *SMALL) as made:
        supervisor = made.status()["supervisor_pid"]
        processes = processes_of(supervisor)
        os.kill(supervisor, signal.SIGSTOP)
        try:
            made.run("down", timeout_s=20)
            wait_until(lambda: not alive(processes), "every process is gone")
        finally:
            with suppress(ProcessLookupError):
                os.kill(supervisor, signal.SIGCONT)


# -- interrupted -----------------------------------------------------------------------------------------------------


def the_name_is_claimed(up: subprocess.Popen[str], made: RealLab) -> None:
    wait_until(lambda: (made.folder / "lock").exists() or up.poll() is not None, "the name is claimed", 30)


def has_said(text: str) -> Callable[[subprocess.Popen[str], RealLab], None]:
    def wait(up: subprocess.Popen[str], _: RealLab) -> None:
        assert up.stderr is not None
        for line in up.stderr:
            if text in line:
                return
        raise AssertionError(f"it ended without saying {text!r}")

    return wait


MOMENTS = {
    "name claimed": the_name_is_claimed,
    "network made": has_said("network made"),
    "zookeeper serves": has_said("zk1 serves"),
}


@pytest.mark.proves("A1", "A2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_start_leaves_nothing(moment: str, number: signal.Signals, us: User) -> None:
    made = RealLab(us, f"cut-{number.name.lower()}-{moment.replace(' ', '-')}")
    before = host()
    up = us.start("up", "--name", made.name, *SMALL)
    try:
        MOMENTS[moment](up, made)
        up.send_signal(number)
        _, err = up.communicate(timeout=20)
    finally:
        up.kill()
        up.communicate()
    assert up.returncode == {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9}[number.name]
    assert "Traceback" not in err
    wait_until(lambda: nothing_left(us, made.name), "nothing is left")
    assert host() == before
    if number != signal.SIGKILL:
        assert not made.folder.exists()


@pytest.mark.proves("A1")
def test_after_an_interrupted_start_the_name_can_be_used_at_once(us: User) -> None:
    up = us.start("up", "--name", "again", *SMALL)
    the_name_is_claimed(up, RealLab(us, "again"))
    up.kill()
    up.communicate()
    wait_until(lambda: nothing_left(us, "again"), "nothing is left")
    with lab(us, "again", *SMALL) as made:
        assert made.node("kafka1")["state"] == "running"


# -- broken ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("E2")
@pytest.mark.parametrize(
    ("setting", "evidence"),
    [
        ("kafka1.jvm=-XX:+NoSuchFlag", "NoSuchFlag"),
        ("kafka1.jvm=-Xms9000g -Xmx9000g", "memory"),
        ("broker.log.retention.hours=banana", "banana"),
    ],
)
def test_a_broker_that_dies_while_starting_shows_its_last_lines_and_leaves_nothing(
    setting: str, evidence: str, us: User
) -> None:
    before, files = host(), set(Path("/").iterdir())
    made = RealLab(us, "broken")
    done = made.run("up", *SMALL, "--set", setting, timeout_s=60)
    assert done.returncode == 4
    said = done.stderr.partition("ackproof: ")[2]
    assert said.startswith("kafka1 died while starting (exit code 1")
    assert evidence in said
    assert "Traceback" not in done.stderr
    wait_until(lambda: nothing_left(us, "broken"), "nothing is left")
    assert not made.folder.exists()
    assert host() == before
    assert set(Path("/").iterdir()) == files, "a crashing JVM writes into its working directory"


@contextmanager
def a_wrong_java(user: User) -> Iterator[User]:
    with a_java(user, "#!/bin/sh\nexit 1\n", version="11.0.2") as found:
        yield found


@contextmanager
def a_damaged_jar(user: User) -> Iterator[User]:
    """Make a cache with links to the jars of the real one, but one jar is a copy that is cut short."""
    with with_an_empty_cache(user) as found:
        theirs = Path(found.environment["XDG_CACHE_HOME"]) / "ackproof" / "kafka" / DEFAULT_ZOOKEEPER
        shutil.copytree(jars_of(user), theirs, copy_function=link_or_copy)
        jar = theirs / f"kafka_2.13-{DEFAULT_ZOOKEEPER}.jar"
        whole = jar.read_bytes()
        jar.unlink()  # the file may be the real jar
        jar.write_bytes(whole[: len(whole) // 2])
        yield found


def jars_of(user: User) -> Path:
    cache = user.environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "ackproof" / "kafka" / DEFAULT_ZOOKEEPER


@pytest.mark.proves("E2")
@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (a_wrong_java, ("is Java 11.0.2", "need Java 17")),
        (a_damaged_jar, (f"kafka_2.13-{DEFAULT_ZOOKEEPER}.jar, which is damaged", "connect to the network")),
    ],
    ids=["wrong Java", "damaged jar"],
)
def test_impossible_ingredients_of_a_lab_are_refused_before_anything_starts(
    us: User,
    broken: Callable[[User], AbstractContextManager[User]],
    cause: tuple[str, ...],
    record_property: Callable[[str, object], None],
) -> None:
    before = host()
    with broken(us) as user:
        made, begun = RealLab(user, "unmade"), time.monotonic()
        done = made.run("up", *SMALL, timeout_s=START_S + 5, first=without_network)
        took_s = time.monotonic() - begun
    assert done.returncode == 4
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("ackproof: ")]
    assert all(words in said for words in cause), said
    assert "Traceback" not in done.stderr
    assert not made.folder.exists()
    wait_until(lambda: not us.processes() and not us.temporary_files(), "nothing is left")
    assert host() == before
    record_property("figure", f"{cause[0]}: exit 4 after {took_s:.1f} s, clean")


@pytest.mark.proves("E3")
@pytest.mark.parametrize("verb", ["up", "run"])
@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ({"refuses": ["nftables"]}, "Protocol not supported"),
        ({"switches": {"/proc/sys/user/max_net_namespaces": "3"}}, "No space left on device"),
        ({"refuses": ["namespaces"]}, "Operation not permitted"),
    ],
    ids=["no nftables", "three networks", "no namespaces"],
)
def test_a_machine_that_cannot_make_a_network_gets_a_sentence_with_the_way_out(
    us: User, lacks: dict[str, Any], why: str, verb: str, tmp_path: Path
) -> None:
    before, labs, scenario = on_the_host(), us.labs(), tmp_path / "short.toml"
    scenario.write_text(SHORT)
    words = {"up": ("--name", "poor", *SMALL), "run": (str(scenario), "--out", str(tmp_path / "runs"))}[verb]
    process = us.start_python(crippled.__file__, json.dumps(lacks), verb, *words)
    _, err = process.communicate(timeout=100)
    (said,) = [line for line in err.splitlines() if line.startswith("ackproof: ")]
    assert why in said
    assert said.endswith("`ackproof doctor` says what to do")
    assert process.returncode == 4
    assert "Traceback" not in err
    assert sorted(us.labs()) == sorted(labs)
    wait_until(lambda: not us.processes() and not us.temporary_files(), "nothing is left")
    assert on_the_host() == before


@pytest.mark.proves("E2")
@pytest.mark.parametrize("verb", size(["start"], ["start", "up"]))
def test_a_broker_that_never_serves_is_reported_at_its_deadline(
    us: User, verb: str, record_property: Callable[[str, object], None]
) -> None:
    deadline_s = {"start": 8.0, "up": START_S}[verb]
    before = on_the_host()
    with ExitStack() as stack:
        if verb == "start":
            made = stack.enter_context(lab(us, "never", *SMALL))
            made.do("kill", "kafka1")
            made.do("pause", "zk1")
        else:
            made = RealLab(stack.enter_context(with_brokers_that_never_serve(us)), "never")
        begun = time.monotonic()
        arguments = ("kafka1", "--timeout", f"{deadline_s}s") if verb == "start" else SMALL
        done = made.run(verb, *arguments, timeout_s=deadline_s + 20)
        ended = time.monotonic()
        if verb == "start":  # the deadline counts from the start of the lab
            asked = [each for each in made.events() if (each["event"], each.get("verb")) == ("asked", verb)]
            begun = asked[-1]["at_ns"] / 1e9
        took_s = ended - begun
        assert done.returncode == 4
        said, *last = done.stderr.partition("ackproof: ")[2].splitlines()
        assert said == f"kafka1 did not serve within {deadline_s:.0f} s; the log of kafka1 ends:"
        assert {"start": "Waiting until connected", "up": NEVER_SERVES}[verb] in "".join(last)
        assert took_s < deadline_s + 5
    wait_until(lambda: nothing_left(us, "never"), "nothing is left")
    assert_clean(us, before)
    record_property("figure", f"`{verb}` gave up after {took_s:.1f} s, its deadline being {deadline_s:.0f} s")


@pytest.mark.proves("E2")
@pytest.mark.parametrize("how", size(["dies at once"], ["dies at once", "never serves"]))
def test_a_run_whose_broker_never_starts_says_so_and_leaves_only_its_directory(
    us: User, how: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    before, labs, out, scenario = on_the_host(), us.labs(), tmp_path / "runs", tmp_path / "short.toml"
    never = how == "never serves"
    broken = "" if never else '[cluster.settings.kafka1]\njvm = "-XX:+NoSuchFlag"\n\n'
    scenario.write_text(SHORT.replace("[[topics]]", f"{broken}[[topics]]", 1))
    with with_brokers_that_never_serve(us) if never else nullcontext(us) as user:
        run = user.start("run", str(scenario), "--out", str(out))
        try:
            has_said("network made")(run, RealLab(user, "of the run"))  # then its nodes start
            begun = time.monotonic()
            _, err = run.communicate(timeout=START_S + 20)
            took_s = time.monotonic() - begun
        finally:
            run.kill()
            run.communicate()
    assert run.returncode == 4
    said, *last = err.partition("ackproof: ")[2].splitlines()
    cause = f"did not serve within {START_S:.0f} s" if never else "died while starting (exit code 1"
    evidence = NEVER_SERVES if never else "NoSuchFlag"
    assert said.startswith(f"kafka1 {cause}")
    assert said.endswith(" ends:")
    assert evidence in "".join(last)
    assert "Traceback" not in err
    assert took_s < START_S + 5
    assert set(us.labs()) <= set(labs)
    assert_clean(us, before)
    (directory,) = out.iterdir()
    record = read_record(directory)
    assert record.ended == "failed"
    assert record.problems[0].startswith(said)
    assert record.marks.ready_ns is None, "the run never had a lab"
    assert "not judged" in (directory / "report.html").read_text()
    assert evidence in "".join(path.read_text() for path in (directory / "logs").glob("kafka1*"))
    record_property("figure", f"a run whose broker {how}: exit 4 after {took_s:.1f} s with its last lines, clean")


@pytest.mark.proves("E2")
def test_a_broker_that_cannot_start_again_is_reported_and_the_lab_goes_on(us: User) -> None:
    with lab(us, "worn", *SMALL, "--mode", "kraft") as made:
        made.do("kill", "kafka1")
        meta = made.folder / "data" / "kafka1" / "log1" / "meta.properties"
        made.do("exec", "client", "--", "sh", "-c", f"echo version=99 > {meta}")
        assert "kafka1 died while starting" in made.refused(4, "start", "kafka1")
        assert made.node("kafka1")["state"] == "down"
        made.do("reset")
        assert made.connect("client", "kafka1", 9092) == "connected"
