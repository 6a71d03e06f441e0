"""The process of a health check, in a run or beside a lab. It runs in the router's namespace, where no fault reaches.

It prints JSON, one event a line: `watching`, `armed`, `raised`, `cleared`, `offset_fell`, `query_restarted`,
`too_late`, and the `rate` of each second. In a run all events but the rates go to the journal too.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.health.alerting import Alert
from ackproof.health.check import HealthCheck
from ackproof.health.config import HealthConfig
from ackproof.journal.writer import Writer


def teller(journal: Writer | None) -> Callable[[Alert], None]:
    """Returns the function that prints and journals alerts. Threads may share it: one alert is written at a time."""
    turn = threading.Lock()

    def tell(alert: Alert) -> None:
        with turn:
            if journal is not None and alert.event != "rate":
                row = {name: getattr(alert, name) for name in ("rule", "event", "value", "text")}
                journal.add(at_ns=time.monotonic_ns(), **row)
                journal.flush()
            print(msgspec.json.encode(alert).decode(), flush=True)

    return tell


def _stop_with_stdin(check: HealthCheck) -> None:
    sys.stdin.buffer.read()
    check.stop()


def main() -> int:
    config = read_config(HealthConfig)
    os.environ["JAVA_HOME"] = config.java_home
    os.environ["TMPDIR"] = tempfile.tempdir = config.folder
    progress = None if config.progress is None else Progress(Path(config.progress), create=True)

    def ready() -> None:
        if progress is not None:
            progress.write(1)

    with ExitStack() as stack:
        journal, spark_log = None, None
        if config.directory is not None:
            directory = Path(config.directory)
            journal, spark_log = Writer(directory, "alerts", config.run, "health"), directory / "logs/health-spark.log"
            stack.callback(journal.close, seal=False)
            stack.enter_context(Lateness(config.directory, config.run, "health"))
        check = HealthCheck(config, teller(journal), ready, spark_log)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: check.stop())
        if config.tethered:
            threading.Thread(target=_stop_with_stdin, args=(check,), daemon=True).start()
        problem = check.run()
    if problem is not None:
        print(problem.message, *problem.details, sep="\n", flush=True)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
