"""The directory of a lab: its files, and the lock that shows whether the lab is alive."""

from __future__ import annotations

import errno
import importlib
import io
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackproof.cli import main as cli
from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.lab import client as control
from ackproof.lab.directory import (
    LabDirectory,
    Started,
    labs_root,
    living_labs,
    name_of_run,
    remove_dead_runs,
)
from ackproof.lab.spec import LabSpec
from tests.support.lab_network import ANOTHER_UID, in_a_child


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@contextmanager
def claimed(name: str = "a") -> Iterator[LabDirectory]:
    directory = LabDirectory.of(name)
    lock = directory.claim()
    try:
        yield directory
    finally:
        os.close(lock)


def test_a_claimed_lab_is_alive_until_its_lock_is_released() -> None:
    directory = LabDirectory.of("a")
    assert not directory.alive()
    with claimed():
        assert directory.alive()
        assert living_labs() == ["a"]
    assert not directory.alive()
    assert living_labs() == []


def test_a_name_can_be_claimed_once() -> None:
    with claimed(), pytest.raises(UsageProblem, match="up already"):
        LabDirectory.of("a").claim()


def test_a_refused_claim_touches_nothing_of_the_lab_that_lives() -> None:
    with claimed() as directory:
        directory.log("kafka1").write_text("precious")
        with pytest.raises(UsageProblem):
            LabDirectory.of("a").claim()
        assert directory.log("kafka1").read_text() == "precious"


def test_labs_of_two_names_are_independent() -> None:
    with claimed("a") as a, claimed("b") as b:
        assert a.path != b.path
        assert living_labs() == ["a", "b"]


def test_a_lab_dies_with_the_process_that_holds_its_lock() -> None:
    directory = LabDirectory.of("a")
    lock = directory.claim()
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock])
    os.close(lock)
    assert directory.alive()
    assert not directory.wait_until_gone(0.05)
    holder.kill()
    holder.communicate()
    assert directory.wait_until_gone(5)


@pytest.mark.proves("F3")
def test_files_of_a_dead_lab_are_removed_and_nothing_else(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    with claimed() as directory:
        directory.log("kafka1").write_text("old")
        (directory.path / "lab.json").write_text("{}")
        (directory.path / "link").symlink_to(elsewhere)
        (directory.path / "logs" / "link").symlink_to(elsewhere)
        (directory.path / "control.sock").touch()
    with claimed() as directory:
        assert sorted(entry.name for entry in directory.path.iterdir()) == ["data", "lock", "logs", "settings"]
        assert not [*directory.path.glob("*/*")]
    assert (elsewhere / "precious").exists()


def test_a_folder_that_is_removed_during_the_claim_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LabDirectory.of("a")
    opened: list[object] = []
    real = os.open

    def open_then_lose(path: Any, *arguments: Any, **more: Any) -> int:
        descriptor = real(path, *arguments, **more)
        if str(path) == str(directory.lock) and not opened:
            opened.append(path)
            directory.remove()  # another command's `down`, at the worst moment
            assert not directory.path.exists()
        return descriptor

    monkeypatch.setattr(os, "open", open_then_lose)
    lock = directory.claim()
    monkeypatch.undo()
    try:
        assert opened
        assert os.path.samestat(os.fstat(lock), directory.lock.stat())
    finally:
        os.close(lock)


def test_of_many_claims_at_once_one_is_granted() -> None:
    locks, refused, barrier = [], [], threading.Barrier(8)

    def claim() -> None:
        barrier.wait(timeout=10)
        try:
            locks.append(LabDirectory.of("a").claim())
        except UsageProblem as problem:
            refused.append(problem)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lock in locks:
        os.close(lock)
    assert (len(locks), len(refused)) == (1, 7)


@pytest.mark.proves("F4")
def test_only_the_owner_may_look_inside() -> None:
    before = os.umask(0)
    try:
        with claimed() as directory:
            assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
            assert stat.S_IMODE(directory.lock.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_an_unwritable_state_folder_is_reported_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    with pytest.raises(CannotHere, match="XDG_STATE_HOME"):
        LabDirectory.of("a").claim()


def test_files_that_cannot_be_removed_are_reported_and_no_lock_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with claimed() as directory:
        kept = directory.path / "logs"

    def refused(path: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr("ackproof.lab.directory.LAST_WORDS_S", 0)
    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(CannotHere, match=f"{directory.path} could not be removed.*another --name"):
        directory.claim()
    assert kept.exists()
    assert not directory.alive()


@pytest.mark.proves("F3")
@pytest.mark.parametrize("name", ["../a", "/etc", "a/b", ""])
def test_no_name_leads_out_of_the_state_folder(name: str) -> None:
    with pytest.raises(UsageProblem):
        LabDirectory.of(name)


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_a_relative_state_home_is_ignored(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert labs_root() == Path("/home/somebody/.local/state/ackproof/labs")


def test_the_record_of_a_started_lab_is_read_back() -> None:
    told = Started(LabSpec(kafka="3.9.2", racks=("a",)), 17, "id", "/jars", "/java", {"kafka1": 19092})
    with claimed() as directory:
        directory.write_started(told)
        assert directory.started() == told
        assert not directory.path.joinpath("lab.json.new").exists()


def test_the_next_run_removes_the_lab_of_a_killed_run_and_nothing_else() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"run-{gone.pid}-1", name_of_run("1"), "run-mine", "a"):
        with claimed(name):
            pass
    with claimed(f"run-{gone.pid}-2"):
        remove_dead_runs()
        assert {entry.name for entry in labs_root().iterdir()} == {
            f"run-{gone.pid}-2",  # kept: its lab is up
            name_of_run("1"),  # its run may still read in it
            "run-mine",
            "a",
        }


# -- labs of other users ---------------------------------------------------------------------------------------------


@pytest.mark.proves("E3")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_lab_of_another_user_is_never_called_down_nor_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        with claimed("theirs") as directory:
            lines = [[*verb.split(), "--name", "theirs", *words] for verb, *words in ALL_VERBS]
            *found, other = in_a_child(lambda: as_another([*lines, ["status", "--name", "mine"]]))
            for line, (code, out, err) in zip(lines, found, strict=True):
                assert (code, out, err.count("\n")) == (4, "", 1), (line, err)
                assert "lab 'theirs' belongs to user root: no permission" in err, line
            assert directory.alive()
            assert other[0] == 2
            assert "theirs (perhaps: no permission to look)" in other[2]
        assert directory.lock.exists()


ALL_VERBS = [
    ["status"],
    ["down"],
    ["up"],
    ["logs", "kafka1"],
    ["events"],
    ["kill", "kafka1"],
    ["kafka"],
    ["topic describe"],
    ["watch"],
    ["produce", "orders"],
    ["exec", "client", "true"],
]


def as_another(lines: list[list[str]]) -> list[tuple[int, str, str]]:
    """Run each command line as an ordinary user, who cannot import from root's Python: so import everything first."""
    for name in (
        "kafka.distribution.jars",
        "kafka.admin",
        "lab.kafka_tools",
        "clients.interactive",
        "cli.ui.follow",
        "cli.ui.lab_watch",
    ):
        importlib.import_module(f"ackproof.{name}")
    cli._command()
    os.setgroups([])
    os.setgid(ANOTHER_UID)
    os.setuid(ANOTHER_UID)
    found = []
    for line in lines:
        sys.argv, sys.stdout, sys.stderr = ["ackproof", *line], io.StringIO(), io.StringIO()
        found.append((cli._run(), sys.stdout.getvalue(), sys.stderr.getvalue()))
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_runs_of_another_user_are_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with claimed(f"run-{gone.pid}-1") as directory:
        refuse = PermissionError(errno.EACCES, "Permission denied", str(directory.lock))
        monkeypatch.setattr(os, "open", raising(refuse))
        remove_dead_runs()
        with pytest.raises(CannotHere, match="belongs to"):
            directory.alive()
        monkeypatch.undo()
        assert directory.lock.exists()


def raising(problem: OSError) -> Callable[..., int]:
    def open_(*_: object, **__: object) -> int:
        raise problem

    return open_


def test_a_lock_that_cannot_be_opened_for_lack_of_descriptors_does_not_mean_that_the_lab_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = LabDirectory.of("a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", raising(OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(CannotHere, match="cannot be seen"):
            directory.alive()


@pytest.mark.parametrize("content", [b"", b"{", b'{"supervisor_pid": 10000000000000000000000}', b"\xff"])
def test_a_damaged_lab_file_is_reported_in_one_sentence(content: bytes) -> None:
    with claimed() as directory:
        (directory.path / "lab.json").write_bytes(content)
        with pytest.raises(CannotHere, match="is damaged"):
            directory.started()


def test_a_lab_with_a_full_queue_of_callers_is_reported_in_time() -> None:
    """A stopped supervisor accepts no caller from the queue, and callers that gave up stay in it."""
    with claimed() as directory, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory.socket))
        listening.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(directory.socket))
            with pytest.raises(CannotHere, match=r"does not answer \(is its supervisor stopped"):
                control.call("a", "status", answer_s=0.2)
