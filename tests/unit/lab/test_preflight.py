"""The doctor reports on every machine: it does not hang, does not crash, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.core.errors import CannotHere
from ackproof.host import namespaces as kernel
from ackproof.host.processes import below
from ackproof.kafka.distribution import jars
from ackproof.lab import preflight as doctor
from ackproof.lab.preflight import Finding, examine
from tests.support import crippled
from tests.support.skips import cannot_run

Usage = namedtuple("Usage", "total used free")


def network_interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.mark.proves("E3")
def test_every_check_has_a_finding_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before, place, mounts = network_interfaces(), Path("/proc/self/ns/net").readlink(), Path("/proc/mounts").read_text()
    started = below(os.getpid())  # by tests before this one
    findings = {finding.name: finding for finding in examine()}
    assert len(findings) == 15
    assert {finding.status for finding in findings.values()} <= {"ok", "warn", "fail"}
    assert all(finding.way_out for finding in findings.values() if finding.status != "ok")
    assert "this check itself failed" not in " ".join(finding.found for finding in findings.values())
    assert findings["Kafka's jars"].status == "warn"
    assert (network_interfaces(), Path("/proc/self/ns/net").readlink()) == (before, place)
    assert Path("/proc/mounts").read_text() == mounts
    assert not (tmp_path / "cache").exists()
    assert set(below(os.getpid())) <= set(started)


def test_a_check_that_crashes_is_a_finding() -> None:
    def falls(name: str) -> Finding:
        raise ZeroDivisionError("unforeseen")

    finding = doctor._answer("x", falls)
    assert finding.status == "fail"
    assert "ZeroDivisionError: unforeseen" in finding.found


def test_a_problem_is_split_into_the_finding_and_what_to_do() -> None:
    def refuses(name: str) -> Finding:
        raise CannotHere("No Java was found: install one.")

    assert doctor._answer("Java", refuses) == Finding("Java", "fail", "No Java was found", "install one.")


def test_an_attempt_that_hangs_is_killed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBE_S_MAX", 0.2)
    began = time.monotonic()
    assert "no answer within" in doctor._tried(lambda: time.sleep(60))
    assert time.monotonic() - began < 5


def test_an_attempt_returns_its_error_or_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise OSError(1, "unshare: Operation not permitted")

    def speaks() -> None:
        os.write(1, b"nobody hears this")
        os.write(2, b"nor this")

    assert doctor._tried(lambda: None) == ""
    assert doctor._tried(fails) == "unshare: Operation not permitted"
    assert doctor._tried(lambda: os._exit(9)) == "the attempt ended without a report"
    assert doctor._tried(speaks) == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.proves("E3")
@pytest.mark.parametrize("switch", doctor.SWITCHES, ids=[cure for _, _, cure in doctor.SWITCHES])
def test_the_switch_that_is_off_is_named(switch: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    file, off, cure = switch
    monkeypatch.setattr(doctor, "_read", lambda asked: off if asked == file else "")
    monkeypatch.setattr(doctor, "_tried", lambda work: "Operation not permitted")
    told = f"as root: sysctl -w {cure} (now {off}); or run ackproof as root"
    assert doctor._rootless("x").way_out == told


@pytest.mark.proves("E3")
def test_without_a_switch_it_is_the_container_that_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_read", lambda file: "77")
    monkeypatch.setattr(doctor, "_tried", lambda work: "Operation not permitted")
    assert doctor._rootless("x").way_out == "run ackproof as root, or outside the container that forbids it"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert doctor._as_root("x").way_out == ("run outside a container, or in one with CAP_SYS_ADMIN and CAP_NET_ADMIN")


@pytest.mark.proves("E3")
def test_only_ordinary_users_need_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_tried", lambda work: "no")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (doctor._rootless("x").status, doctor._as_root("x").status) == ("warn", "fail")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (doctor._rootless("x").status, doctor._as_root("x").status) == ("fail", "ok")


@pytest.mark.proves("E3")
@pytest.mark.parametrize(
    ("question", "status", "cure"),
    [(doctor._nftables, "fail", "modprobe -a nf_tables"), (doctor._netem, "warn", "modprobe sch_netem")],
)
def test_what_the_kernel_lacks_is_named_with_its_module_or_first_the_namespaces(
    question: Callable[[str], Finding], status: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_tried", lambda work: "No such file or directory")
    finding = question("x")
    assert (finding.status, finding.found, cure in finding.way_out) == (status, "No such file or directory", True)
    monkeypatch.setattr(doctor, "_tried", lambda work: f"{doctor.NOT_TRIED} (Operation not permitted)")
    assert question("x").way_out == "fix the namespaces first"


@pytest.mark.proves("E3")
@pytest.mark.parametrize(("available", "status"), [(1500, "ok"), (1499, "warn"), (500, "warn"), (499, "fail")])
def test_memory_for_a_lab(available: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_mb", lambda: available)
    finding = doctor._memory("x")
    assert (finding.status, "up --brokers 1" in finding.way_out) == (status, status != "ok")


@pytest.mark.proves("E3")
@pytest.mark.parametrize(("free_mb", "status"), [(400, "ok"), (399, "fail")])
def test_free_space_is_measured_where_the_directory_will_be(
    free_mb: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def disk_usage(path: Path) -> Usage:
        asked.append(path)
        return Usage(0, 0, free_mb * 2**20)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert doctor._disk("x", tmp_path / "not" / "yet", 400, "XDG_CACHE_HOME").status == status
    assert asked == [tmp_path]


def test_a_file_in_place_of_a_directory_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o755)
    finding = doctor._disk("x", tmp_path / "file", 1, "XDG_CACHE_HOME")
    assert (finding.status, "XDG_CACHE_HOME" in finding.way_out) == ("fail", True)


@pytest.mark.proves("E3")
def test_damaged_and_missing_jars_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "cached", lambda: {"3.9.2": ["x.jar"], "4.3.1": [], "4.0.0": None})
    finding = doctor._cached("x")
    assert finding.status == "warn"
    assert finding.found == "verified: 4.3.1; damaged: 3.9.2 (x.jar), 4.0.0 (no list of checksums)"
    monkeypatch.setattr(jars, "cached", lambda: {"3.9.2": []})
    assert doctor._cached("x").found == "verified: 3.9.2; not fetched yet: 4.3.1"


READ_ONLY = 1  # MS_RDONLY


def told_by_a_crippled_machine(lacks: dict[str, Any], **environment: str | None) -> dict[str, Finding]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | environment
    done = subprocess.run(
        [sys.executable, "-P", crippled.__file__, json.dumps(lacks), "doctor", "--json"],
        env={name: value for name, value in clean.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if "unshare" in done.stderr:
        cannot_run("no user namespaces to cripple a machine in")
    assert done.returncode in (0, 4), done.stderr
    assert "this check itself failed" not in done.stdout
    return {each["name"]: msgspec.convert(each, Finding) for each in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Finding]]:
    """A machine that lacks several independent things at once, and the doctor's findings about it."""
    folder = tmp_path_factory.mktemp("poor")
    for name in ("home", "temporary", "programs"):
        (folder / name).mkdir()
    memory = folder / "meminfo"
    memory.write_text("MemTotal: 2015892 kB\nMemFree: 300000 kB\nMemAvailable: 1228800 kB\n")
    full = str(folder / "temporary")
    lacks = {
        "mounts": [
            ["tmpfs", str(folder / "home"), "tmpfs", READ_ONLY, ""],
            ["tmpfs", full, "tmpfs", 0, "size=1m"],
            [str(memory), "/proc/meminfo", "", kernel.MS_BIND, ""],
        ],
        "full": full,
        "java": None,
        "refuses": ["nftables"],
    }
    environment = {"HOME": str(folder / "home"), "TMPDIR": full, "PATH": str(folder / "programs")}
    return folder, told_by_a_crippled_machine(lacks, JAVA_HOME=None, **environment)


@pytest.mark.proves("E3")
def test_a_home_that_is_read_only_is_named(poor: tuple[Path, dict[str, Finding]]) -> None:
    folder, findings = poor
    for name, variable in (("disk for the cache", "XDG_CACHE_HOME"), ("disk for the labs", "XDG_STATE_HOME")):
        assert (findings[name].status, findings[name].found) == ("fail", f"{folder / 'home'} cannot be written")
        assert variable in findings[name].way_out


@pytest.mark.proves("E3")
def test_a_temporary_folder_that_is_full_is_named(poor: tuple[Path, dict[str, Finding]]) -> None:
    folder, findings = poor
    finding = findings["disk for temporary files"]
    assert (finding.status, "TMPDIR" in finding.way_out) == ("fail", True)
    assert finding.found.startswith(f"0 MB free for {folder / 'temporary'}")


@pytest.mark.proves("E3")
def test_a_kernel_without_nftables_is_told_which_modules_it_lacks(poor: tuple[Path, dict[str, Finding]]) -> None:
    finding = poor[1]["nftables"]
    assert (finding.status, finding.found) == ("fail", "Protocol not supported")
    assert "modprobe -a nf_tables" in finding.way_out


@pytest.mark.proves("E3")
def test_a_machine_with_2_gb_learns_what_fits(poor: tuple[Path, dict[str, Finding]]) -> None:
    finding = poor[1]["memory"]
    assert (finding.status, finding.found) == ("warn", "1200 MB available; a lab of three brokers takes about 1500 MB")
    assert "up --brokers 1" in finding.way_out


@pytest.mark.proves("E3")
def test_a_machine_without_java_is_told_what_to_install(poor: tuple[Path, dict[str, Finding]]) -> None:
    finding = poor[1]["Java"]
    assert (finding.status, finding.found.startswith("No Java was found")) == ("fail", True)
    assert "apt install openjdk-17-jre-headless" in finding.way_out


@pytest.mark.proves("E3")
def test_user_namespaces_that_are_switched_off_are_named_with_the_switch() -> None:
    """The limit that counts is that of the doctor's own namespace."""
    lacks = {"as": 1000, "switches": {"/proc/sys/user/max_user_namespaces": "0"}}
    findings = told_by_a_crippled_machine(lacks)
    assert findings["namespaces without root"] == Finding(
        "namespaces without root",
        "fail",
        findings["namespaces without root"].found,
        "as root: sysctl -w user.max_user_namespaces=15000 (now 0); or run ackproof as root",
    )
    for name in ("nftables", "netem"):
        assert findings[name].found.startswith(doctor.NOT_TRIED)
        assert findings[name].way_out == "fix the namespaces first"


@pytest.mark.proves("E3")
@pytest.mark.parametrize(("kind", "limit"), [("net", "0"), ("net", "3"), ("mnt", "0"), ("pid", "0")])
def test_too_few_namespaces_of_a_kind_are_named_with_their_limit(kind: str, limit: str) -> None:
    finding = told_by_a_crippled_machine({"switches": {f"/proc/sys/user/max_{kind}_namespaces": limit}})[
        "namespaces as root"
    ]
    assert (finding.status, finding.found) == ("fail", "unshare: No space left on device")
    assert finding.way_out == f"as root: sysctl -w user.max_{kind}_namespaces=15000 (now {limit})"


@pytest.mark.proves("E3")
@pytest.mark.parametrize("switch", doctor.SWITCHES)
def test_a_switch_that_only_some_kernels_have_is_named(switch: tuple[str, str, str]) -> None:
    """The switch's file exists and is off, and the kernel refuses the namespaces."""
    file, off, cure = switch
    lacks = {
        "as": 1000,
        "mounts": [["tmpfs", "/proc/sys/kernel", "tmpfs", 0, ""]],
        "switches": {file: off},
        "refuses": ["namespaces"],
    }
    finding = told_by_a_crippled_machine(lacks)["namespaces without root"]
    assert (finding.status, "Operation not permitted" in finding.found) == ("fail", True)
    assert finding.way_out == f"as root: sysctl -w {cure} (now {off}); or run ackproof as root"


@pytest.mark.proves("E3")
def test_a_container_that_forbids_namespaces_is_named_to_root_and_to_others() -> None:
    findings = told_by_a_crippled_machine({"refuses": ["namespaces"]})
    assert findings["namespaces as root"].status == "fail"
    assert findings["namespaces as root"].way_out.startswith("run outside a container")
    lacks = {"as": 1000, "mounts": [["tmpfs", "/proc/sys/kernel", "tmpfs", 0, ""]], "refuses": ["namespaces"]}
    finding = told_by_a_crippled_machine(lacks)["namespaces without root"]
    assert (finding.status, finding.way_out) == (
        "fail",
        "run ackproof as root, or outside the container that forbids it",
    )


def on_a_terminal(command: list[str], environment: dict[str, str]) -> bytes:
    """Return the output of a program whose stdout and stderr are a terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # EIO: no process has its other end open any more
            while part := os.read(ours, 65536):
                said += part
        os.close(ours)
        assert process.wait(timeout=100) in (0, 4), said
    return said


# A verdict in colours: the last words of `run` and `judge`.
TELLS = """
import sys
from pathlib import Path
from ackproof.model.run_record import read_record
from ackproof.cli.run_command import print_verdict
from ackproof.model.verdict import Fitness, not_judged
print_verdict(not_judged(read_record(Path(sys.argv[1])), Fitness("judged", False, "Not judged.")))
"""
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3|4|9|10)[0-9](?:;[0-9;]*)?m")


@pytest.mark.proves("E3")
@pytest.mark.parametrize(
    ("terminal", "more", "obeys", "colours"),
    [
        (True, {"TERM": "xterm-256color"}, True, True),
        (True, {"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
        (True, {"TERM": "dumb"}, False, False),
        (False, {"TERM": "xterm-256color"}, False, False),
    ],
    ids=["terminal", "NO_COLOR", "dumb", "pipe"],
)
def test_only_a_capable_terminal_gets_colours(terminal: bool, more: dict[str, str], obeys: bool, colours: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")} | more

    def said(*words: str) -> bytes:
        command = [sys.executable, "-P", *words]
        if terminal:
            return on_a_terminal(command, environment)
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=100)
        return done.stdout + done.stderr

    if colours or not terminal:  # between the two there is nothing that the doctor could do otherwise
        examined = said("-m", "ackproof", "doctor")
        assert b"\x1b" not in examined
        assert all(name in examined for name in (b" Python: ", b" Java: ", b" nftables: ", b" memory: "))
    verdict = said("-c", TELLS, str(Path(__file__).parents[2] / "recorded" / "runs" / "loss-isolated"))
    assert b"acknowledged" in verdict
    assert (b"\x1b" in verdict) <= obeys
    assert bool(COLOUR.search(verdict)) == colours


@pytest.mark.proves("E3")
@pytest.mark.parametrize("words", [["doctor"], ["show", "soak"], ["nonsensé"]])
def test_a_locale_other_than_utf8_is_only_a_warning(words: list[str]) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    command = [sys.executable, "-P", "-m", "ackproof", *words]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=100)
    assert done.returncode in ({"doctor": (0, 4), "nonsensé": (2,)}.get(words[0], (0,))), done.stderr
    assert b"Traceback" not in done.stderr
    assert (done.stdout + done.stderr).isascii()
    if words == ["doctor"]:
        assert b"the locale is not UTF-8" in done.stdout
        assert b"LC_ALL=C.UTF-8" in done.stdout
