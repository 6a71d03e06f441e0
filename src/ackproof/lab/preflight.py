"""Can this machine run a lab? Each check tries it, instead of reading versions.

Checks of the kernel run in a child process. It enters namespaces of its own, and builds there what a lab needs, with
the lab's own code: a link, a cut with a timeout, loss, a reset, a delay. When the child ends, the kernel removes all of
it. A child that does not answer in time is killed, so nothing here can hang. A check that fails in an unexpected way is
a finding too, never a traceback.

A finding is `ok`; `warn` if a lab runs without it; or `fail` if a lab cannot run.
"""

from __future__ import annotations

import codecs
import ctypes
import locale
import os
import platform
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from ackproof.core.errors import CannotHere
from ackproof.host import namespaces as kernel
from ackproof.host.java import find_java
from ackproof.host.memory import available_mb
from ackproof.kafka.distribution import jars
from ackproof.kafka.distribution.ivy import find_ivy

__all__ = ["Finding", "Status", "examine"]

Status = Literal["ok", "warn", "fail"]

PROBE_S_MAX = 20.0
NOBODY = 65534
LAB_MB = 1500
LAB_MB_MIN = 500
JARS_MB = 400
STATE_MB = 100
TEMPORARY_MB = 100
NOT_TRIED = "not tried, because no namespace could be made"
_PR_SET_DUMPABLE = 4

# Files that can turn user namespaces off, the value that does so, and the sysctl that turns them on again.
SWITCHES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
)
LIMITED = ("user", "net", "mnt", "pid")  # kinds of namespaces; a lab has a network namespace for each node
LAB_NETWORKS = 8
ROOMY = 15_000


class Finding(msgspec.Struct, frozen=True):
    name: str
    status: Status
    found: str
    way_out: str = ""


def examine() -> list[Finding]:
    """All findings, in the order in which a person would fix them."""
    questions: Sequence[tuple[str, Callable[[str], Finding]]] = (
        ("Python", _python),
        ("Java", _java),
        ("namespaces as root", _as_root),
        ("namespaces without root", _rootless),
        ("nftables", _nftables),
        ("netem", _netem),
        ("memory", _memory),
        ("disk for the cache", lambda name: _disk(name, jars.cache_root(), JARS_MB, "XDG_CACHE_HOME")),
        ("disk for the labs", lambda name: _disk(name, _state_root(), STATE_MB, "XDG_STATE_HOME")),
        ("disk for temporary files", _temporary),
        ("characters", _characters),
        ("Kafka's jars", _cached),
        ("Ivy", _ivy),
        (
            "chromium",
            lambda name: _program(name, ("chromium", "chromium-browser", "google-chrome"), "looks at reports"),
        ),
        ("kcat", lambda name: _program(name, ("kcat", "kafkacat"), "is a client for --expose")),
    )
    return [_answer(name, question) for name, question in questions]


def _answer(name: str, question: Callable[[str], Finding]) -> Finding:
    try:
        return question(name)
    except CannotHere as problem:
        found, _, way_out = problem.message.partition(": ")
        return Finding(name, "fail", found, way_out)
    except Exception as problem:  # noqa: BLE001 - a check must not end the others
        told = f"{type(problem).__name__}: {problem}"
        return Finding(name, "fail", f"this check itself failed ({told})", "please report it with this line")


# -- programs ----------------------------------------------------------------------------------------------------


def _python(name: str) -> Finding:
    return Finding(name, "ok", f"Python {platform.python_version()} in {sys.prefix}")


def _java(name: str) -> Finding:
    java = find_java()
    return Finding(name, "ok", f"Java {java.text} in {java.home}")


def _ivy(name: str) -> Finding:
    return Finding(name, "ok", f"{find_ivy()}")


def _program(name: str, programs: Sequence[str], what_for: str) -> Finding:
    for program in programs:
        if path := shutil.which(program):
            return Finding(name, "ok", path)
    return Finding(
        name, "warn", f"not installed; it {what_for}, and nothing else needs it", f"apt install {programs[0]}"
    )


# -- the kernel --------------------------------------------------------------------------------------------------


def _as_root(name: str) -> Finding:
    if os.geteuid() != 0:
        return Finding(name, "ok", "not tried, because you are not root; not needed if the next check is ok")
    if problem := _tried(lambda: _enter_all(rootless=False)):
        cure = "run outside a container, or in one with CAP_SYS_ADMIN and CAP_NET_ADMIN"
        return Finding(name, "fail", problem, _switched_off() or cure)
    return Finding(name, "ok", "network, mount and process namespaces can be made")


def _rootless(name: str) -> Finding:
    problem = _tried(lambda: _enter_all(rootless=True))
    if not problem:
        return Finding(name, "ok", "an ordinary user can make them")
    status: Status = "warn" if os.geteuid() == 0 else "fail"
    switch = _switched_off()
    if switch:
        return Finding(name, status, problem, f"{switch}; or run ackproof as root")
    return Finding(name, status, problem, "run ackproof as root, or outside the container that forbids it")


def _switched_off() -> str:
    """The command that allows namespaces, if a switch or a limit of the kernel forbids them, else empty."""
    for file, off, cure in SWITCHES:
        if _read(file) == off:
            return f"as root: sysctl -w {cure} (now {off})"
    for kind in LIMITED:
        now = _read(f"/proc/sys/user/max_{kind}_namespaces")
        if now.isdigit() and int(now) < LAB_NETWORKS:
            return f"as root: sysctl -w user.max_{kind}_namespaces={ROOMY} (now {now})"
    return ""


def _nftables(name: str) -> Finding:
    problem = _tried(_cut_something)
    if not problem:
        return Finding(name, "ok", "sets with time-outs and counters, loss and resets work")
    cure = "as root: modprobe -a nf_tables nft_reject_ipv4 nft_numgen veth; or use a kernel that has them"
    return Finding(name, "fail", problem, _first_namespaces(problem) or cure)


def _netem(name: str) -> Finding:
    problem = _tried(_delay_something)
    if not problem:
        return Finding(name, "ok", "packets can be delayed")
    cure = "only `slow` needs it; as root: modprobe sch_netem, or another kernel"
    return Finding(name, "warn", problem, _first_namespaces(problem) or cure)


def cannot_delay() -> str:
    """Why packets cannot be delayed here, or empty if they can."""
    return _tried(_delay_something)


def _first_namespaces(problem: str) -> str:
    return "fix the namespaces first" if problem.startswith(NOT_TRIED) else ""


def _enter(flags: int, rootless: bool) -> None:
    """Enter namespaces as the supervisor does. `rootless` as root: become `nobody` first, to see what a user may do."""
    if not rootless:
        kernel.unshare(flags)
        return
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self would still belong to root
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(flags | kernel.CLONE_NEWUSER)
    kernel.map_root(uid, gid)


def _enter_all(rootless: bool) -> None:
    _enter(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID, rootless)
    for _ in range(LAB_NETWORKS - 1):
        kernel.new_network()
    problem = _tried(_mount_something)  # in a child, which is the first process of the new pid namespace
    if problem:
        raise OSError(problem)


def _mount_something() -> None:
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
    kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0700")  # noqa: S108 - in our own mount namespace


def _enter_network() -> None:
    try:
        _enter(kernel.CLONE_NEWNET, rootless=os.geteuid() != 0)
    except OSError as problem:
        raise OSError(f"{NOT_TRIED} ({problem.strerror})") from problem


def _cut_something() -> None:
    _enter_network()
    from ackproof.lab.network.nftables import Match
    from ackproof.lab.network.router import Network  # pyroute2 takes a while to load

    network = Network()
    for number in (1, 2):
        network.attach(f"kafka{number}", f"198.18.1.{number}")
    links = [("198.18.1.1", "198.18.1.2")]
    network.rules.add("f1", Match(loss=0.5), links, 60.0)
    network.rules.add("f2", Match(port=9092, new_connections=True, reset=True), links, 60.0)
    network.rules.counted("f1")


def _delay_something() -> None:
    _enter_network()
    from ackproof.lab.network.router import Network

    network = Network()
    network.attach("kafka1", "198.18.1.1")
    network.delay("kafka1", 10.0)


def _tried(work: Callable[[], None]) -> str:
    """Do this in a child process. Returns the child's error message, or nothing if it worked."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _as_child(work, writing)
    os.close(writing)
    try:
        return _heard(reading, child)
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def _as_child(work: Callable[[], None], writing: int) -> NoReturn:
    """Do the work, report to the parent, and exit. It never returns into the parent's code."""
    told = b"ok"
    try:
        kernel.die_with_parent(signal.SIGKILL)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        work()
    except BaseException as problem:  # noqa: BLE001 - reported to the parent
        words = problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
        told = f"{words or type(problem).__name__}".encode(errors="replace")
    finally:
        os.write(writing, told[:4000])
        os._exit(0)


def _heard(reading: int, child: int) -> str:
    """The child's report, or what is wrong if it is late or dies without one."""
    deadline = time.monotonic() + PROBE_S_MAX
    said = b""
    while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(reading, 4096)
        if not part:
            return "" if said == b"ok" else said.decode(errors="replace") or "the attempt ended without a report"
        said += part
    os.kill(child, signal.SIGKILL)
    return f"no answer within {PROBE_S_MAX:.0f} s"


# -- room --------------------------------------------------------------------------------------------------------


def _memory(name: str) -> Finding:
    available = available_mb()
    found = f"{available} MB available; a lab of three brokers takes about {LAB_MB} MB"
    if available >= LAB_MB:
        return Finding(name, "ok", found)
    status: Status = "warn" if available >= LAB_MB_MIN else "fail"
    return Finding(name, status, found, "end other programs, or start a smaller lab: up --brokers 1")


def _disk(name: str, directory: Path, need_mb: int, variable: str) -> Finding:
    """Whether there is room for a directory. If it does not exist yet, the nearest one above it counts."""
    there = directory
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(name, "fail", f"{there} cannot be written", f"set {variable} to a directory of your own")
    free_mb = shutil.disk_usage(there).free // 2**20
    found = f"{free_mb} MB free for {directory}"
    if free_mb < need_mb:
        return Finding(name, "fail", f"{found}, {need_mb} MB needed", f"free some, or set {variable} to another disk")
    return Finding(name, "ok", found)


def _temporary(name: str) -> Finding:
    return _disk(name, Path(os.environ.get("TMPDIR") or "/tmp"), TEMPORARY_MB, "TMPDIR")  # noqa: S108


def _characters(name: str) -> Finding:
    """The encoding of the locale. Python treats C and POSIX as UTF-8 unless the environment says otherwise."""
    encoding = locale.getencoding()
    if sys.flags.utf8_mode or codecs.lookup(encoding).name == "utf-8":
        return Finding(name, "ok", "UTF-8")
    found = f"the locale is not UTF-8 but {encoding}: signs that it lacks are shown as ?"
    return Finding(name, "warn", found, "export LC_ALL=C.UTF-8")


def _state_root() -> Path:
    from ackproof.lab.directory import labs_root

    return labs_root()


def _cached(name: str) -> Finding:
    held = jars.cached()
    damaged = [f"{version} ({', '.join(files[:3])})" for version, files in held.items() if files]
    damaged += [f"{version} (no list of checksums)" for version, files in held.items() if files is None]
    whole = [version for version, files in held.items() if files == []]
    missing = [version for version in (jars.DEFAULT_ZOOKEEPER, jars.DEFAULT_KRAFT) if version not in held]
    found = f"verified: {', '.join(whole) or 'none'}"
    if damaged:
        return Finding(name, "warn", f"{found}; damaged: {', '.join(damaged)}", "the next start fetches them again")
    if missing:
        cure = "the first start fetches them, which needs the network once"
        return Finding(name, "warn", f"{found}; not fetched yet: {', '.join(missing)}", cure)
    return Finding(name, "ok", found)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
