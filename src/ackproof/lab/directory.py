"""The directory of a lab: its files, and the lock that tells whether the lab is alive.

$XDG_STATE_HOME/ackproof/labs/NAME/     (default ~/.local/state; only its owner can read it)
    lock            the supervisor holds it while it lives; the kernel releases it when the supervisor dies
    control.sock    where the supervisor takes commands
    lab.json        the lab as it was started: spec, pid, exposed ports
    users.json      the passwords of the lab's users, if it has any; made for this lab, removed with it
    events.jsonl    the audit log
    logs/           a file for each node, and the supervisor's own
    settings/       the settings with which each node was started
    data/           the nodes' disks: memory that only the lab sees, and that ends with it
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.lab.spec import LabSpec, check_name

RUN = re.compile(r"run-(\d{1,9})-")
LOOK_S = 0.3
LAST_WORDS_S = 2.0
PID_MAX = 2**22  # the limit of Linux


class Started(msgspec.Struct, frozen=True):
    """A running lab, as its supervisor writes it to lab.json."""

    spec: LabSpec
    supervisor_pid: Annotated[int, msgspec.Meta(ge=1, le=PID_MAX)]  # the pid on the host
    cluster_id: str
    jars: str
    java: str
    exposed: dict[str, int]


def labs_root() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or ""
    try:
        base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    except RuntimeError:
        raise CannotHere("this user has no home directory: set HOME, or XDG_STATE_HOME") from None
    return base / "ackproof" / "labs"


@dataclass(frozen=True)
class LabDirectory:
    path: Path

    @staticmethod
    def of(name: str) -> LabDirectory:
        return LabDirectory(labs_root() / check_name(name))

    @staticmethod
    def to_read(name: str) -> LabDirectory:
        """The directory of a lab, up or down, to read its files. CannotHere if they belong to another user."""
        directory = LabDirectory.of(name)
        directory.alive()
        return directory

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def socket(self) -> Path:
        return self.path / "control.sock"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def users(self) -> Path:
        return self.path / "users.json"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "logs" / "supervisor.log"

    def log(self, node: str) -> Path:
        return self.path / "logs" / f"{node}.log"

    def settings(self, node: str) -> Path:
        return self.path / "settings" / node

    def alive(self) -> bool:
        """Whether a supervisor holds the lock. A pid would not do, because pids are reused.

        CannotHere if it cannot be known, because the lock may not be opened.
        """
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError as problem:
            raise self.not_permitted() from problem
        except OSError as problem:
            raise CannotHere(
                f"it cannot be seen whether lab {self.name!r} is up ({self.lock}: {problem.strerror})"
            ) from problem
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)  # shared, so that two readers do not disturb each other
        finally:
            os.close(descriptor)

    def not_permitted(self) -> CannotHere:
        """The error for a lab whose files this user may not open."""
        return CannotHere(
            f"lab {self.name!r} belongs to {self._owner()}: no permission to open {self.lock}; "
            "ask as that user, or set XDG_STATE_HOME to a folder of your own"
        )

    def _owner(self) -> str:
        """The owner of the folder, or of the nearest folder above it whose owner can be seen."""
        for folder in (self.path, *self.path.parents):
            with suppress(OSError):
                uid = folder.stat().st_uid
                try:
                    return f"user {pwd.getpwuid(uid).pw_name}"
                except KeyError:
                    return f"user {uid}"
        return "another user"

    def claim(self, retries: int = 20) -> int:
        """Make the directory, empty it and take its lock. Returns the lock's descriptor, for the supervisor."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            if isinstance(problem, FileNotFoundError) and retries and self.path.parent.is_dir():
                return self.claim(retries - 1)  # a concurrent `down` has just removed the folder
            raise CannotHere(
                f"{self.path} cannot be written ({problem.strerror}): set XDG_STATE_HOME to another folder"
            ) from problem
        deadline = time.monotonic() + LOOK_S  # `alive` holds the lock for a moment
        while not (mine := _locked(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.005)
        if not mine:
            os.close(descriptor)
            raise UsageProblem(
                f"a lab named {self.name!r} is up already: use `ackproof down --name {self.name}`, or another --name"
            )
        if not self.lock.exists() or not os.path.samestat(os.fstat(descriptor), self.lock.stat()):
            os.close(descriptor)  # a concurrent `down` has removed the lock
            return self.claim(max(0, retries - 1))
        try:
            self._sweep()
            for folder in ("logs", "settings", "data"):
                (self.path / folder).mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            os.close(descriptor)
            raise CannotHere(
                f"files of an earlier lab in {self.path} could not be removed ({problem.strerror}): "
                "remove them by hand, or use another --name"
            ) from problem
        return descriptor

    def _sweep(self) -> None:
        """Remove what a dead lab left here, except the lock, which keeps two callers apart.

        The kernel releases the lock before it has ended the lab's last process, which may still write.
        """
        deadline = time.monotonic() + LAST_WORDS_S
        while left := [entry for entry in self.path.iterdir() if entry.name != "lock"]:
            for entry in left:
                try:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)

    def remove(self) -> None:
        """Remove the folder, unless a new lab is in it by now."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if _locked(descriptor):
                self._sweep()
                self.lock.unlink(missing_ok=True)
                with suppress(OSError):  # a new lab is being made in it
                    self.path.rmdir()
        except OSError as problem:
            raise CannotHere(
                f"{self.path} could not be removed ({problem.strerror}): `ackproof down --name {self.name}` tries again"
            ) from problem
        finally:
            os.close(descriptor)

    def wait_until_gone(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def write_started(self, started: Started) -> None:
        temporary = self.path / "lab.json.new"
        temporary.write_bytes(msgspec.json.encode(started))
        temporary.rename(self.path / "lab.json")

    def started(self) -> Started:
        path = self.path / "lab.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Started)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise CannotHere(
                f"{path} is damaged ({problem}): end the lab's supervisor, and start the lab again"
            ) from None


def living_labs() -> list[str]:
    """The names of the labs that are up. A lab of another user may be up, and is marked with "perhaps"."""
    found = []
    for directory in _all_directories():
        try:
            found += [directory.name] if directory.alive() else []
        except CannotHere:
            found.append(f"{directory.name} (perhaps: no permission to look)")
    return found


def name_of_run(moment: str) -> str:
    """The name of the lab of a run that this process carries out."""
    return f"run-{os.getpid()}-{moment}"


def remove_dead_runs() -> None:
    """Remove the folders of runs' labs whose own process is gone: it was killed, or interrupted a second time."""
    for directory in _all_directories():
        made_by = RUN.match(directory.name)
        if made_by and not _lives(int(made_by[1])):
            with suppress(CannotHere):  # the next run tries again
                directory.remove()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # the process of another user
    return True


def _all_directories() -> list[LabDirectory]:
    try:
        return [LabDirectory(entry) for entry in sorted(labs_root().iterdir())]
    except OSError:  # there is none, or no permission; `claim` reports the problem
        return []


def _locked(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
