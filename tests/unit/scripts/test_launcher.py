"""The launcher, with a PATH that has only programs of this test.

The tests go every way through the launcher and read its sentences. They do not let pip install anything.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKS = 'case "$*" in *ensurepip*) exit 0 ;; esac\necho "$0 $*"\n'
TOO_OLD = "exit 3\n"
WITHOUT_VENV = "exit 4\n"
SHIM = "echo 'command not found' >&2\nexit 127\n"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


@dataclass(frozen=True)
class Clone:
    root: Path
    programs: Path

    def call(self, *arguments: str, launcher: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [launcher or str(self.root / "ackproof"), *arguments],
            env={"PATH": str(self.programs), "HOME": str(self.root), **environment},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def set_up(self) -> None:
        """Make an environment as the set-up leaves it: its stamp, and a Python that prints how it was called."""
        program(self.root / ".venv" / "bin" / "python", 'echo "python $* ${PYTHONDONTWRITEBYTECODE-unset}"\n')
        stamp = self.root / ".venv" / "ackproof"
        stamp.mkdir()
        for name in ("constraints.txt", "pyproject.toml"):
            shutil.copy(self.root / name, stamp / name)
        (stamp / "at").write_text(f"{self.root}\n")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    made = Clone(tmp_path / "a clone", tmp_path / "bin")
    (made.root / "scripts").mkdir(parents=True)
    made.programs.mkdir()
    for name in ("ackproof", "constraints.txt", "pyproject.toml", "scripts/bootstrap.py"):
        shutil.copy(ROOT / name, made.root / name)
    for name in ("cmp", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (made.programs / name).symlink_to(found)
    return made


def test_a_clone_that_is_set_up_starts_python_at_once(clone: Clone) -> None:
    clone.set_up()
    answer = clone.call("up", "a b", PYTHONDONTWRITEBYTECODE="1")
    assert (answer.stdout, answer.stderr) == ("python -I -m ackproof up a b unset\n", "")


def test_the_launcher_may_be_called_through_a_link(clone: Clone, tmp_path: Path) -> None:
    clone.set_up()
    (tmp_path / "linked").symlink_to(clone.root / "ackproof")
    assert clone.call("x", launcher=str(tmp_path / "linked")).stdout == "python -I -m ackproof x unset\n"


@pytest.mark.parametrize("change", ["constraints.txt", "pyproject.toml", "moved", "no python", "dev", "unfinished"])
def test_a_clone_that_differs_from_its_stamp_is_set_up_again(change: str, clone: Clone) -> None:
    clone.set_up()
    program(clone.programs / "python3.11", WORKS)
    environment: dict[str, str] = {}
    if change == "moved":
        (clone.root / ".venv/ackproof/at").write_text("/elsewhere\n")
    elif change == "no python":
        (clone.root / ".venv/bin/python").unlink()
        (clone.root / ".venv/bin/python").symlink_to("/nowhere")
    elif change == "dev":
        environment["ACKPROOF_DEV"] = "1"
    elif change == "unfinished":
        (clone.root / ".venv/ackproof/at").unlink()
    else:
        with (clone.root / change).open("a") as file:
            file.write("# another\n")
    answer = clone.call("x", **environment)
    assert f"python3.11 -I {clone.root}/scripts/bootstrap.py\n" in answer.stdout


def test_without_python_it_says_what_to_install(clone: Clone) -> None:
    answer = clone.call("x")
    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr.startswith("ackproof: Python 3.11 or newer is needed, and none was found")
    assert answer.stderr.count("\n") == 1


def test_a_python_that_is_too_old_is_not_used(clone: Clone) -> None:
    program(clone.programs / "python3", TOO_OLD)
    assert clone.call("x").returncode == 4


def test_a_python_without_venv_names_the_package(clone: Clone) -> None:
    program(clone.programs / "python3.12", WITHOUT_VENV)
    program(clone.programs / "python3", TOO_OLD)
    answer = clone.call("x")
    assert answer.returncode == 4
    assert "apt install python3.12-venv" in answer.stderr


def test_the_newest_python_that_works_is_used(clone: Clone) -> None:
    program(clone.programs / "python3.13", SHIM)
    program(clone.programs / "python3.12", WITHOUT_VENV)
    program(clone.programs / "python3.11", WORKS)
    program(clone.programs / "python3", WORKS)
    assert "/python3.11 -I" in clone.call("x").stdout


def test_a_set_up_that_fails_ends_the_call_with_its_code(clone: Clone) -> None:
    program(clone.programs / "python3", 'case "$*" in *ensurepip*) exit 0 ;; esac\nexit 4\n')
    assert clone.call("x").returncode == 4


@pytest.fixture
def bootstrap(clone: Clone) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", clone.root / "scripts" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("NewConnectionError: Failed to establish a new connection: [Errno -3]", "connect to the network"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "is full"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "clone the project into a directory of your own"),
        ("ERROR: unheard of", "unheard of"),
    ],
)
def test_a_failed_set_up_says_why(said: str, told: str, bootstrap: ModuleType) -> None:
    assert told in str(bootstrap.failure("pip", [said]))


def test_a_second_set_up_waits_for_the_first_and_says_so(clone: Clone) -> None:
    clone.set_up()
    python = clone.root / ".venv/bin/python"
    python.unlink()
    python.symlink_to(sys.executable)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (clone.root / ".venv/lib" / version / "site-packages").mkdir(parents=True)
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    lock = str(clone.root / ".venv.lock")
    with subprocess.Popen([sys.executable, "-c", hold, lock], stdin=-1, stdout=-1, text=True) as first:
        assert first.stdout is not None
        first.stdout.readline()
        second = subprocess.Popen(
            [sys.executable, "-I", clone.root / "scripts/bootstrap.py"], stderr=subprocess.PIPE, text=True
        )
        with second:
            assert second.stderr is not None
            assert second.stderr.readline() == "ackproof: another call is setting up; waiting for it.\n"
            assert second.poll() is None
            first.communicate("\n", timeout=10)
            assert second.wait(10) == 0


def test_an_interrupted_set_up_says_so_and_leaves_no_stamp(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], clone: Clone
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "make_venv", interrupted)
    monkeypatch.setattr(bootstrap.signal, "signal", lambda *_: None)
    assert bootstrap.main() == 130
    assert "the next call goes on from here" in capsys.readouterr().err
    assert not os.path.lexists(clone.root / ".venv/ackproof")
