"""The doctor tells, whatever it meets: it neither hangs, nor falls over, nor leaves anything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import msgspec
import pytest

from ackproof import doctor
from ackproof.doctor import Finding, examine
from ackproof.errors import CannotHere
from ackproof.kafka import jars
from conftest import cannot_run

Usage = namedtuple("Usage", "total used free")


def network_interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.mark.proves("E3")
def test_every_question_is_answered_and_nothing_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before, place, mounts = network_interfaces(), Path("/proc/self/ns/net").readlink(), Path("/proc/mounts").read_text()
    findings = {finding.name: finding for finding in examine()}
    assert len(findings) == 15
    assert {finding.status for finding in findings.values()} <= {"ok", "warn", "fail"}
    assert all(finding.way_out for finding in findings.values() if finding.status != "ok")
    assert "this check itself failed" not in " ".join(finding.found for finding in findings.values())
    assert findings["Kafka's jars"].status == "warn"
    assert (network_interfaces(), Path("/proc/self/ns/net").readlink()) == (before, place)
    assert Path("/proc/mounts").read_text() == mounts
    assert not (tmp_path / "cache").exists()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_question_that_falls_over_is_a_finding() -> None:
    def falls(name: str) -> Finding:
        raise ZeroDivisionError("unforeseen")

    finding = doctor._answer("x", falls)
    assert finding.status == "fail"
    assert "ZeroDivisionError: unforeseen" in finding.found


def test_a_problem_is_split_into_what_was_found_and_the_way_out() -> None:
    def refuses(name: str) -> Finding:
        raise CannotHere("No Java was found: install one.")

    assert doctor._answer("Java", refuses) == Finding("Java", "fail", "No Java was found", "install one.")


def test_an_attempt_that_hangs_is_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBE_S_MAX", 0.2)
    began = time.monotonic()
    assert "no answer within" in doctor._tried(lambda: time.sleep(60))
    assert time.monotonic() - began < 5


def test_an_attempt_tells_what_went_wrong_or_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise OSError(1, "unshare: Operation not permitted")

    def speaks() -> None:
        os.write(1, b"nobody hears this")
        os.write(2, b"nor this")

    assert doctor._tried(lambda: None) == ""
    assert doctor._tried(fails) == "unshare: Operation not permitted"
    assert doctor._tried(lambda: os._exit(9)) == "the attempt died without a word"
    assert doctor._tried(speaks) == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.proves("E3")
@pytest.mark.parametrize(("value", "cure"), [("0", "as root: sysctl -w user.max=9"), ("1", "run ackproof as root")])
def test_the_switch_that_is_off_is_named(
    value: str, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = tmp_path / "max"
    switch.write_text(f"{value}\n")
    monkeypatch.setattr(doctor, "SWITCHES", ((str(switch), "0", "user.max=9"),))
    monkeypatch.setattr(doctor, "_tried", lambda work: "Operation not permitted")
    assert doctor._rootless("x").way_out.startswith(cure)


@pytest.mark.proves("E3")
def test_rootless_is_needed_only_by_who_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_tried", lambda work: "no")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (doctor._rootless("x").status, doctor._as_root("x").status) == ("warn", "fail")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (doctor._rootless("x").status, doctor._as_root("x").status) == ("fail", "ok")


def test_rules_that_could_not_be_tried_send_to_the_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_tried", lambda work: f"{doctor.NOT_TRIED} (Operation not permitted)")
    assert "namespaces" in doctor._nftables("x").way_out
    monkeypatch.setattr(doctor, "_tried", lambda work: "No such file or directory")
    assert "modprobe" in doctor._nftables("x").way_out


@pytest.mark.proves("E3")
@pytest.mark.parametrize(("available", "status"), [(1500, "ok"), (1499, "warn"), (500, "warn"), (499, "fail")])
def test_memory_for_a_lab(available: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "available_mb", lambda: available)
    assert doctor._memory("x").status == status


@pytest.mark.proves("E3")
@pytest.mark.parametrize(("free_mb", "status"), [(400, "ok"), (399, "fail")])
def test_disk_is_looked_up_where_the_directory_will_be(
    free_mb: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def disk_usage(path: Path) -> Usage:
        asked.append(path)
        return Usage(0, 0, free_mb * 2**20)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    assert doctor._disk("x", tmp_path / "not" / "yet", 400, "XDG_CACHE_HOME").status == status
    assert asked == [tmp_path]


def test_a_file_in_the_place_of_a_directory_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o755)
    finding = doctor._disk("x", tmp_path / "file", 1, "XDG_CACHE_HOME")
    assert (finding.status, "XDG_CACHE_HOME" in finding.way_out) == ("fail", True)


@pytest.mark.proves("E3")
def test_damaged_and_missing_jars_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "cached", lambda: {"3.9.2": ["x.jar"], "4.3.1": [], "4.0.0": None})
    finding = doctor._cached("x")
    assert finding.status == "warn"
    assert finding.found == "verified: 4.3.1; damaged: 3.9.2 (x.jar), 4.0.0 (no list of checksums)"
    monkeypatch.setattr(jars, "cached", lambda: {"3.9.2": []})
    assert doctor._cached("x").found == "verified: 3.9.2; not there yet: 4.3.1"


# A machine that lacks something: in namespaces of its own, so that the lack is real and nobody else's.
CRIPPLED = """
import os, sys
from ackproof.lab import kernel
uid, gid = os.getuid(), os.getgid()
kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
kernel.map_root(uid, gid)
place, options, flags = sys.argv[1:4]
kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
kernel.mount("tmpfs", place, "tmpfs", int(flags), options)
if options:
    with open(f"{place}/full", "wb") as full:
        try:
            while True:
                full.write(bytes(2**16))
                full.flush()
        except OSError:
            pass
os.execv(sys.executable, [sys.executable, "-P", "-m", "ackproof", "doctor", "--json"])
"""
READ_ONLY = 1  # MS_RDONLY


def told_by_a_crippled_machine(place: Path, options: str, flags: int, **environment: str) -> dict[str, Finding]:
    place.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", CRIPPLED, str(place), options, str(flags)],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if "unshare" in done.stderr:
        cannot_run("no user namespaces to cripple a machine in")
    assert done.returncode in (0, 4), done.stderr
    return {each["name"]: msgspec.convert(each, Finding) for each in json.loads(done.stdout)}


@pytest.mark.proves("E3")
def test_a_home_that_is_read_only_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    findings = told_by_a_crippled_machine(home, "", READ_ONLY, HOME=str(home))
    for name, variable in (("disk for the cache", "XDG_CACHE_HOME"), ("disk for the labs", "XDG_STATE_HOME")):
        assert (findings[name].status, findings[name].found) == ("fail", f"{home} cannot be written")
        assert variable in findings[name].way_out


@pytest.mark.proves("E3")
def test_a_temporary_folder_that_is_full_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    finding = told_by_a_crippled_machine(folder, "size=1m", 0, TMPDIR=str(folder))["disk for what is temporary"]
    assert (finding.status, "TMPDIR" in finding.way_out) == ("fail", True)
    assert finding.found.startswith(f"0 MB free for {folder}")


@pytest.mark.proves("E3")
@pytest.mark.parametrize("words", [["doctor"], ["show", "soak"], ["run", "soak", "--dry-run"], ["list"], ["nonsensé"]])
def test_a_locale_that_is_not_utf8_is_named_and_harms_nothing(words: list[str]) -> None:
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
