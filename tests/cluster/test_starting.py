"""Starting and not starting: small labs of one broker, interrupted, broken, two at once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from real_lab import (
    RealLab,
    User,
    alive,
    an_ordinary_user,
    host,
    lab,
    mentioning,
    ourselves,
    processes_of,
    wait_until,
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
    """No process that has to do with the lab, and its name is free."""
    return not mentioning(f"{user.state}/ackproof/labs/{name}") and RealLab(user, name).run("status").returncode == 2


# -- up and down -----------------------------------------------------------------------------------------------------


def test_zookeeper_without_root_comes_up_serves_and_goes_down(ordinary: User) -> None:
    before = host()
    with lab(ordinary, "small", *SMALL) as made:
        processes = processes_of(made.status()["supervisor_pid"])
        made.topic("create", "orders")
        assert "orders" in made.topic("describe")
        assert made.connect("client", "kafka1", 9092) == "connected"
        made.do("down")
        wait_until(lambda: not alive(processes), "every process is gone")
        assert not made.folder.exists()
    assert host() == before


@pytest.mark.proves("A5")
def test_two_labs_do_not_meet_and_one_that_is_killed_does_not_harm_the_other(us: User) -> None:
    with lab(us, "one", *SMALL, "--expose") as one, lab(us, "two", *SMALL, "--mode", "kraft", "--expose") as two:
        first, second = one.status(), two.status()
        assert first["exposed"] != second["exposed"]
        assert one.node("kafka1")["address"] == two.node("kafka1")["address"]
        one.do("cut", "kafka1", "client")
        assert one.connect("client", "kafka1", 9092) == "silent"
        assert two.connect("client", "kafka1", 9092) == "connected"
        doomed, spared = processes_of(first["supervisor_pid"]), processes_of(second["supervisor_pid"])
        assert not doomed & spared
        os.kill(first["supervisor_pid"], signal.SIGKILL)
        wait_until(lambda: not alive(doomed), "every process of the one is gone")
        assert alive(spared) >= {each for each in spared if each[0] == second["supervisor_pid"]}
        assert two.status()["nodes"][0]["state"] == "running"
        assert two.connect("client", "kafka1", 9092) == "connected"
        two.do("down")
        wait_until(lambda: not alive(spared), "every process of the other is gone")


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
        raise AssertionError(f"`up` ended without saying {text!r}")

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
    [("kafka1.jvm=-XX:+NoSuchFlag", "NoSuchFlag"), ("broker.log.retention.hours=banana", "banana")],
)
def test_a_broker_that_dies_while_starting_shows_its_last_lines_and_leaves_nothing(
    setting: str, evidence: str, us: User
) -> None:
    before = host()
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


@pytest.mark.proves("E2")
def test_a_broker_that_will_not_start_again_is_told_and_the_lab_lives_on(us: User) -> None:
    with lab(us, "worn", *SMALL, "--mode", "kraft") as made:
        made.do("kill", "kafka1")
        meta = made.folder / "data" / "kafka1" / "log1" / "meta.properties"
        made.do("exec", "client", "--", "sh", "-c", f"echo version=99 > {meta}")
        assert "kafka1 died while starting" in made.refused(4, "start", "kafka1")
        assert made.node("kafka1")["state"] == "down"
        made.do("reset")
        assert made.connect("client", "kafka1", 9092) == "connected"
