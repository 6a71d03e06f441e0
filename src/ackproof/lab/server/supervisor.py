"""The lab's first process: it makes the namespaces, starts the nodes, answers commands, and reaps.

It is pid 1 of its own pid namespace, so when it ends, however it ends, the kernel ends every process in the lab and
takes back every interface, rule and mount. So there is no clean-up code that could be forgotten.

Until the lab is ready, the process that started it holds the other end of a tether, on which the supervisor reports
progress. If that process ends without letting go (`detach`), the lab ends too. `launch.launch` starts it, nobody else:

    python -m ackproof.lab.server.supervisor DIRECTORY
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ackproof.core.errors import BUG_EXIT_CODE, FULL, CannotHere, Problem, no_space
from ackproof.core.sites import RELAY
from ackproof.host import namespaces as kernel
from ackproof.host.memory import available_mb
from ackproof.host.own_program import own_program
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory, Started
from ackproof.lab.spec import EXPOSED_PORT, LabSpec

_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


class Boot(msgspec.Struct, frozen=True):
    """What the starting process hands over in `boot.json`: everything fetched and checked; descriptors by number."""

    spec: LabSpec
    java: str
    jars: str
    classpath: str
    checkpoint: str | None
    lock: int
    tether: int
    exposed: dict[str, tuple[int, int]]  # broker: (listening descriptor, port on the host)


class Tether:
    """Reports to the starting process, one JSON object a line. If that ends without letting go, the lab ends."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def tell(self, **facts: Any) -> None:
        try:
            self._socket.sendall(msgspec.json.encode(facts) + b"\n")
        except OSError:
            os._exit(1)

    def tell_problem(self, problem: Problem) -> None:
        self.tell(problem=[problem.exit_code, problem.message, problem.details])

    def hold(self) -> None:
        """Wait until the starting process lets go, or is gone. An error means that it is gone and left lines unread."""
        try:
            let_go = self._socket.recv(16) == b"detach\n"
        except OSError:
            let_go = False
        if not let_go:
            os._exit(1)
        self._socket.close()


def main() -> None:
    directory = LabDirectory(Path(sys.argv[1]))
    boot = msgspec.json.decode((directory.path / "boot.json").read_bytes(), type=Boot)
    for descriptor in (boot.lock, boot.tether, *(number for number, _ in boot.exposed.values())):
        os.set_inheritable(descriptor, False)  # for this process; the nodes must not inherit them
    tether = Tether(boot.tether)
    try:
        _enter_namespaces()
    except OSError as problem:
        tether.tell_problem(
            CannotHere(f"this machine does not allow a lab's namespaces ({problem}): `ackproof doctor` says what to do")
        )
        return
    if os.fork() != 0:
        os._exit(0)
    try:
        _first_process(directory, boot, tether)
    except Problem as problem:
        tether.tell_problem(problem)
    except BaseException as problem:  # noqa: BLE001  # reported, then the end: this is the outermost frame
        with suppress(OSError):  # a full disk
            traceback.print_exc()
        failed = Problem(f"the lab's supervisor failed; {directory.supervisor_log} ends:", _last_lines())
        tether.tell_problem(_for_want_of_space(problem, directory) or failed)
    os._exit(BUG_EXIT_CODE)  # the kernel cleans up


def _last_lines() -> list[str]:
    return traceback.format_exc().splitlines()[-6:]


def _for_want_of_space(problem: BaseException, directory: LabDirectory) -> Problem | None:
    if isinstance(problem, OSError) and problem.errno in FULL:
        return no_space(directory.path, problem.errno)
    return None


def _enter_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    own = kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID
    if uid == 0:
        try:
            return kernel.unshare(own)
        except PermissionError:  # root without its capabilities is an ordinary user
            pass
    kernel.unshare(kernel.CLONE_NEWUSER | own)
    return kernel.map_root(uid, gid)


def _first_process(directory: LabDirectory, boot: Boot, tether: Tether) -> None:
    host_pid = int(str(Path("/proc/self").readlink()))  # the old /proc still has the host's numbers
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    outside = os.open("/proc", os.O_PATH | os.O_DIRECTORY)  # here a tracer outside of the lab is seen
    _mount(directory)
    tether.tell(supervisor_pid=host_pid)
    threading.Thread(target=tether.hold, daemon=True).start()  # what follows takes a moment on a busy machine
    # Imported only now: this takes a moment, and the starting process must already know which process to end. kio
    # imports hypothesis if it is installed, as it is in a development checkout, which would cost a fifth of a second.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from ackproof.lab.cluster import Cluster, Program
    from ackproof.lab.conditions import Proc
    from ackproof.lab.faults.active import Lab
    from ackproof.lab.network.router import Network, network_here

    events = Events(directory.events)
    with network_here():
        network = Network()
        for node in boot.spec.nodes:
            network.attach(node.name, node.address)
    lab = Lab(network, events, Proc(host_pid, outside))
    checkpoint = Path(boot.checkpoint) if boot.checkpoint else None
    exposed = {name: port for name, (_, port) in boot.exposed.items()}
    program = Program(Path(boot.java), boot.classpath, checkpoint)
    lab.cluster = Cluster(boot.spec, directory, program, network, lab.processes, exposed)
    lab.cluster.write_hosts()
    tether.tell(progress="network made")
    threading.Thread(target=_guarded, args=(_bring_up, lab, directory, boot, tether, host_pid), daemon=True).start()
    _reap_for_ever(lab, events)


def _mount(directory: LabDirectory) -> None:
    """Mount a private view of the file system: its own /proc, its own /etc/hosts, and memory for the nodes' disks.

    The disks take at most half of what is free now, so that they are full before the machine has no memory left.
    """
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
    options = f"mode=0700,size={available_mb() // 2}m"
    kernel.mount("tmpfs", directory.data, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    directory.hosts.touch(mode=0o644)
    kernel.mount(str(directory.hosts), "/etc/hosts", flags=kernel.MS_BIND)


def _guarded(work: Any, *arguments: Any) -> None:
    directory: LabDirectory = arguments[1]
    tether: Tether = arguments[3]
    try:
        work(*arguments)
    except Problem as problem:
        tether.tell_problem(problem)
        os._exit(problem.exit_code)
    except BaseException as problem:  # noqa: BLE001  # reported, then the end: this is the outermost frame
        with suppress(OSError):  # a full disk
            traceback.print_exc()
        failed = Problem("the lab's supervisor failed while starting:", _last_lines())
        tether.tell_problem(_for_want_of_space(problem, directory) or failed)
        os._exit(BUG_EXIT_CODE)


def _bring_up(lab: Any, directory: LabDirectory, boot: Boot, tether: Tether, host_pid: int) -> None:
    from ackproof.lab.server.commands import Server

    for node in lab.cluster.servers:
        lab.cluster.launch(node)
    for broker in lab.cluster.brokers:
        start_relay(lab, directory, boot, broker.name)
    names = [node.name for node in lab.cluster.servers]
    lab.cluster.wait_until_serving(names, lambda said: tether.tell(progress=said), everyone=True)
    exposed = {name: port for name, (_, port) in boot.exposed.items()}
    started = Started(boot.spec, host_pid, lab.cluster.cluster_id, boot.jars, boot.java, exposed)
    directory.write_started(started)
    server = Server(lab, directory, started, lambda name: start_relay(lab, directory, boot, name))
    threading.Thread(target=lab.keep_proving, daemon=True).start()
    threading.Thread(target=lab.keep_watching, daemon=True).start()
    threading.Thread(target=server.serve, daemon=True).start()
    lab.events.add("ready", nodes=names)
    tether.tell(ready=True)


def start_relay(lab: Any, directory: LabDirectory, boot: Boot, broker: str) -> None:
    if broker not in boot.exposed:
        return
    listening, _ = boot.exposed[broker]
    address = lab.cluster.nodes[broker].address
    lab.processes.spawn(
        f"{RELAY}{broker}",
        own_program("ackproof.lab.server.port_relay", f"3={address}:{EXPOSED_PORT}"),
        namespace=lab.network.endpoints["client"].namespace,
        output=directory.supervisor_log,
        environment=os.environ,
        descriptors={3: listening},
    )


def _reap_for_ever(lab: Any, events: Events) -> None:
    while True:
        number = signal.sigwaitinfo(_SIGNALS).si_signo
        if number == signal.SIGCHLD:
            lab.processes.reap()
        else:
            events.add("down", by=signal.Signals(number).name)
            os._exit(128 + number)


if __name__ == "__main__":
    main()
