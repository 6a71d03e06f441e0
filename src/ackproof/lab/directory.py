"""Where a lab keeps what belongs to it, and how to tell whether it is alive.

$XDG_STATE_HOME/ackproof/labs/NAME/     (default ~/.local/state; only its owner may look inside)
    lock            held by the supervisor for as long as it lives: the kernel lets go when it dies
    control.sock    where the verbs speak to it
    lab.json        the lab as asked for, as started: spec, pid, exposed ports
    users.json      the passwords of its users, where it has any: made for this lab, and gone with it
    events.jsonl    the audit trail
    logs/           a file for each node, and the supervisor's own
    settings/       what each node was started with
    data/           the nodes' disks: memory that the lab alone sees, and that goes with it
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
PID_MAX = 2**22  # of Linux


class Started(msgspec.Struct, frozen=True):
    """What a running lab says of itself."""

    spec: LabSpec
    supervisor_pid: Annotated[int, msgspec.Meta(ge=1, le=PID_MAX)]  # as the host counts
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
        """The directory of a lab, up or down, whose files are read next; CannotHere where they are another user's."""
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
        """Whether a supervisor holds the lock. No pid is looked at: numbers are used again.

        CannotHere where that cannot be known: a lock that may not be opened says nothing about its lab.
        """
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError as problem:
            raise self.not_permitted() from problem
        except OSError as problem:
            raise CannotHere(
                f"whether lab {self.name!r} is up cannot be seen ({self.lock}: {problem.strerror})"
            ) from problem
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)  # shared: two who look are not in each other's way
        finally:
            os.close(descriptor)

    def not_permitted(self) -> CannotHere:
        """The sentence for a lab whose files this user may not open."""
        return CannotHere(
            f"lab {self.name!r} belongs to {self._owner()}: no permission to open {self.lock}; "
            "ask as that user, or set XDG_STATE_HOME to a folder of your own"
        )

    def _owner(self) -> str:
        """Whose the folder is; where even that may not be seen, whose the folder above it is, and so on."""
        for folder in (self.path, *self.path.parents):
            with suppress(OSError):
                uid = folder.stat().st_uid
                try:
                    return f"user {pwd.getpwuid(uid).pw_name}"
                except KeyError:
                    return f"user {uid}"
        return "another user"

    def claim(self, retries: int = 20) -> int:
        """Make the directory afresh and hold its lock; the descriptor goes to the supervisor."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            if isinstance(problem, FileNotFoundError) and retries and self.path.parent.is_dir():
                return self.claim(retries - 1)  # somebody's `down` has just taken the folder away
            raise CannotHere(
                f"{self.path} cannot be written ({problem.strerror}): set XDG_STATE_HOME to a folder that can"
            ) from problem
        deadline = time.monotonic() + LOOK_S  # whoever only looks holds it for a moment
        while not (mine := _locked(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.005)
        if not mine:
            os.close(descriptor)
            raise UsageProblem(
                f"a lab named {self.name!r} is up already: use `ackproof down --name {self.name}`, or another --name"
            )
        if not self.lock.exists() or not os.path.samestat(os.fstat(descriptor), self.lock.stat()):
            os.close(descriptor)  # likewise
            return self.claim(max(0, retries - 1))
        try:
            self._sweep()
            for folder in ("logs", "settings", "data"):
                (self.path / folder).mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            os.close(descriptor)
            raise CannotHere(
                f"what an earlier lab left in {self.path} could not be taken away ({problem.strerror}): "
                "take it away by hand, or use another --name"
            ) from problem
        return descriptor

    def _sweep(self) -> None:
        """What a lab that died left here. The lock stays: it is how two callers keep apart.

        The kernel lets go of the lock before it has ended the lab's last process, which may still write.
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
        """Take the folder away, unless somebody has made a lab in it meanwhile."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if _locked(descriptor):
                self._sweep()
                self.lock.unlink(missing_ok=True)
                with suppress(OSError):  # somebody makes a lab in it
                    self.path.rmdir()
        except OSError as problem:
            raise CannotHere(
                f"{self.path} could not be taken away ({problem.strerror}): "
                f"`ackproof down --name {self.name}` tries again"
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
    """The labs that are up, and those of other users, which may be up: these with a word that says so."""
    found = []
    for directory in _all_directories():
        try:
            found += [directory.name] if directory.alive() else []
        except CannotHere:
            found.append(f"{directory.name} (perhaps: no permission to look)")
    return found


def name_of_run(moment: str) -> str:
    """What the lab of a run that this process makes is called."""
    return f"run-{os.getpid()}-{moment}"


def take_away_dead_runs() -> None:
    """What labs of runs left whose own process is gone, too: it was killed, or interrupted a second time."""
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
        pass  # somebody else's
    return True


def _all_directories() -> list[LabDirectory]:
    try:
        return [LabDirectory(entry) for entry in sorted(labs_root().iterdir())]
    except OSError:  # there is none, or we may not look; whoever makes one is told
        return []


def _locked(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
