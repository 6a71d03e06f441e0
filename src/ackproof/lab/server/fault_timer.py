"""Ends a pause or a delay on time, which the kernel cannot end by itself, even if the supervisor is stopped.

    python -m ackproof.lab.server.fault_timer UNTIL EVENTS FAULT resume PIDFD ...
    python -m ackproof.lab.server.fault_timer UNTIL EVENTS FAULT undelay INTERFACE NAMESPACE ...

UNTIL is a time of the monotonic clock, so it does not matter how long this process takes to start. Because it is a
process of its own, stopping the supervisor does not stop it. It ends with the lab.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from ackproof.lab.audit_log import Events


def main(arguments: list[str]) -> None:
    deadline = float(arguments[0])
    events, fault, action, rest = Events(Path(arguments[1])), arguments[2], arguments[3], arguments[4:]
    if action == "undelay":
        from ackproof.lab.network.netem import remove_delay  # slow to import, so before the wait, and only here

    while (left := deadline - time.monotonic()) > 0:
        time.sleep(left)
    if action == "resume":
        for process in map(int, rest):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGCONT)
    else:
        for interface, namespace in zip(rest[::2], rest[1::2], strict=True):
            remove_delay(interface, int(namespace))
    events.add("expired", fault=fault, by="watchdog", pid=os.getpid())


if __name__ == "__main__":
    main(sys.argv[1:])
