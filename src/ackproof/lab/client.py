"""The client of a running lab: send it commands, and run programs and functions in the namespaces of its nodes.

`call` sends a command to the supervisor. `execute` and `inside` run a program, or a function, in a node's namespaces,
with the caller's own terminal.
"""

from __future__ import annotations

import os
import pickle
import pwd
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from ackproof.core.errors import CannotHere, Problem, UsageProblem, problem_of
from ackproof.host import namespaces as kernel
from ackproof.lab.directory import LabDirectory, living_labs

DOWN_S = 10.0
STATUS_S = 20.0
ANSWER_S = 180.0  # longer than any wait in the lab

_NO_ANSWER = "the lab does not answer (is its supervisor stopped?): `ackproof down` ends it"

Progress = Callable[[str], None]
Answer = dict[str, Any]  # the JSON of an answer; `lab/requests.py` reads it into structs
T = TypeVar("T")


# -- commands ----------------------------------------------------------------------------------------------------------


def _connect(name: str, answer_s: float = STATUS_S) -> socket.socket:
    directory = LabDirectory.of(name)
    if not directory.alive():
        others = living_labs()
        hint = f"; labs that are up: {', '.join(others)}" if others else ""
        ended = " (its supervisor has ended)" if directory.path.exists() else ""
        raise UsageProblem(f"no lab named {name!r} is up{ended}: `ackproof up --name {name}` starts it{hint}")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *divmod(int(answer_s * 1e6), 10**6)))
    folder = os.open(directory.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{directory.socket.name}")
    except OSError as problem:
        connection.close()
        if isinstance(problem, FileNotFoundError):
            raise UsageProblem(f"the lab {name!r} is still starting: try again when `ackproof up` is done") from None
        if isinstance(problem, BlockingIOError):  # the queue of waiting connections is full
            raise CannotHere(_NO_ANSWER) from None
        raise CannotHere(f"the lab {name!r} does not answer on its control socket: {problem.strerror}") from problem
    finally:
        os.close(folder)
    return connection


def call(
    name: str, verb: str, progress: Progress | None = None, *, answer_s: float = ANSWER_S, **arguments: Any
) -> Answer:
    """Send a command and return its result. The lab must send something, progress or result, every `answer_s`."""
    with _connect(name, answer_s) as connection:
        connection.settimeout(answer_s + (arguments.get("timeout_s") or 0))
        connection.sendall(msgspec.json.encode({"verb": verb, "asked": _asked(), "by": _by(), **arguments}) + b"\n")
        return _result(connection, progress or (lambda _: None))


def _by() -> str:
    """The caller, for the audit log: the supervisor cannot see who it is."""
    return f"{pwd.getpwuid(os.getuid()).pw_name if _known_user() else os.getuid()}, pid {os.getpid()}"


def _known_user() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _asked() -> str:
    return " ".join(sys.argv[1:])


def _result(connection: socket.socket, progress: Progress) -> Answer:
    try:
        with connection.makefile("rb") as lines:
            for line in lines:
                told = msgspec.json.decode(line) if line.strip() else {}
                if "progress" in told:
                    progress(told["progress"])
                if "problem" in told:
                    raise problem_of(*told["problem"])
                if "ok" in told:
                    result: Answer = told["ok"]
                    return result
    except TimeoutError:
        raise CannotHere(_NO_ANSWER) from None
    except ConnectionError:
        pass
    raise CannotHere("the lab ended before it answered: `ackproof status` tells whether it is still up")


def status(name: str) -> Answer:
    """The status that the lab reports, plus the pids on the host, which only the host knows."""
    told = call(name, "status", answer_s=STATUS_S, offsets=True)
    pids = _host_pids(told["supervisor_pid"])
    for node in told["nodes"]:
        node["pid"] = pids.get(node.pop("pid_inside"))
    return told


def _host_pids(supervisor: int) -> dict[int, int]:
    """The host's pid of each child of the supervisor, by its pid inside the lab."""
    pids = {}
    for children in Path(f"/proc/{supervisor}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text().split():
                lines = Path(f"/proc/{child}/status").read_text().splitlines()
                numbers = next(line for line in lines if line.startswith("NSpid:")).split()
                pids[int(numbers[-1])] = int(child)
    return pids


def down(name: str) -> None:
    directory = LabDirectory.of(name)
    if directory.alive():
        try:
            call(name, "down", answer_s=DOWN_S / 2)
        except CannotHere:
            if directory.alive():  # it is stuck or stopped: kill it by the pid that it wrote down itself
                os.kill(directory.started().supervisor_pid, signal.SIGKILL)
        if not directory.wait_until_gone(DOWN_S):
            raise CannotHere(
                f"the lab {name!r} is still up {DOWN_S:.0f} s after it was told to end: "
                f"`ackproof down --name {name}` tries again"
            )
    elif not directory.path.exists():
        _connect(name)  # raises the error that names the labs that are up
    directory.remove()


# -- in a node's namespaces ------------------------------------------------------------------------------------------


def _namespaces(name: str, node: str) -> list[int]:
    """Descriptors of a node's user, mount, pid and network namespaces."""
    with _connect(name) as connection:
        connection.settimeout(STATUS_S)
        connection.sendall(msgspec.json.encode({"verb": "enter", "asked": _asked(), "node": node}) + b"\n")
        try:
            first, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
        except TimeoutError:
            raise CannotHere(_NO_ANSWER) from None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if first != b"\n":
            rest = first + connection.makefile("rb").readline()
            raise problem_of(*msgspec.json.decode(rest)["problem"])
        return list(descriptors)


def _enter(descriptors: list[int]) -> None:
    """Move this process into a node's user, mount and network namespaces. It must have only one thread."""
    user, mount, _, network = descriptors
    if not os.path.samestat(os.fstat(user), os.stat("/proc/self/ns/user")):  # noqa: PTH116  # a namespace, not a file
        kernel.setns(user, kernel.CLONE_NEWUSER)
    kernel.setns(mount, kernel.CLONE_NEWNS)
    kernel.setns(network, kernel.CLONE_NEWNET)


def execute(name: str, node: str, argv: Sequence[str], environment: dict[str, str] | None = None) -> int:
    """Run a program in a node's namespaces, with our terminal; its exit code, 128 + n after a signal."""
    descriptors = _namespaces(name, node)
    child = os.fork()
    if child == 0:
        _become(descriptors, argv, environment)
    _, status = _wait_through_interrupts(child)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(descriptors: list[int], argv: Sequence[str], environment: dict[str, str] | None) -> NoReturn:
    try:
        here = os.getcwd()  # noqa: PTH109  # restored after the change of mount namespace
        _enter(descriptors)
        kernel.die_with_parent(signal.SIGKILL)  # after the change of user namespace, which would reset it
        with suppress(OSError):
            os.chdir(here)
        kernel.setns(descriptors[2], kernel.CLONE_NEWPID)
        grandchild = os.fork()  # only children enter the new pid namespace
        if grandchild == 0:
            kernel.die_with_parent(signal.SIGKILL)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # the defaults, which a program expects
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], list(argv), environment or dict(os.environ))  # noqa: S606  # the user's own program
        _, status = _wait_through_interrupts(grandchild)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    except FileNotFoundError:
        print(f"ackproof: there is no program {argv[0]!r}", file=sys.stderr)
        os._exit(127)
    except OSError as problem:
        print(f"ackproof: {argv[0]} cannot be run in the lab: {problem.strerror}", file=sys.stderr)
        os._exit(126)


def _wait_through_interrupts(pid: int) -> tuple[int, int]:
    """Wait for a child and ignore Ctrl-C meanwhile: the child gets it too, and decides what to do."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return os.waitpid(pid, 0)
    finally:
        signal.signal(signal.SIGINT, before)


def inside(name: str, node: str, function: Callable[[], T]) -> T:
    """Run a function in a node's namespaces, in a child process, and return its result or raise its error."""
    descriptors = _namespaces(name, node)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_compute(descriptors, function, writing))
    os.close(writing)
    with open(reading, "rb") as results:  # noqa: PTH123  # a descriptor, not a path
        data = results.read()
    os.waitpid(child, 0)
    if not data:
        raise CannotHere("the lab ended, or the process in it was killed")
    outcome = pickle.loads(data)  # noqa: S301  # from our own child
    if isinstance(outcome, BaseException):
        raise outcome
    result: T = outcome
    return result


def _compute(descriptors: list[int], function: Callable[[], Any], writing: int) -> int:
    outcome: Any
    try:
        # This does not enter the lab's pid namespace: a process that has done so cannot start threads.
        _enter(descriptors)
        kernel.die_with_parent(signal.SIGKILL)
        outcome = function()
    except Problem as problem:
        outcome = problem
    except KeyboardInterrupt:
        return 130  # the parent was interrupted too
    except BaseException as problem:  # noqa: BLE001  # the parent raises it again
        outcome = Problem(f"failed inside the lab: {problem!r}", traceback.format_exc().splitlines())
    with open(writing, "wb") as results:
        pickle.dump(outcome, results)
    return 0
