"""Spark as a standalone cluster on loopback: a master and two workers, each a process that a test may kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from ackproof.host.java import find_java

START_S = 60.0
WHERE = ("--host", "127.0.0.1", "--webui-port", "0")


def spark_environment() -> dict[str, str]:
    return {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}


def started(folder: Path, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    """One of Spark's own programs, as its scripts start it; `spark-class` becomes the Java that it starts.
    All its files are in the folder."""
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), main, *arguments]
    own = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_DAEMON_MEMORY": "512m"}
    own["SPARK_LOCAL_DIRS"] = str(folder / "local")
    environment = {**os.environ, **spark_environment(), **own}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)


def said(log: Path, words: str, times: int = 1) -> str:
    """Return the first line with these words, once the log has so many of these lines."""
    deadline = time.monotonic() + START_S
    while True:
        lines = [line for line in log.read_text(errors="replace").splitlines() if words in line]
        if len(lines) >= times:
            return lines[0]
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)


@dataclass(frozen=True)
class Standalone:
    folder: Path
    master: str
    stack: ExitStack
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self) -> None:
        number = len(self.workers) + 1
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work{number}"))
        main = "org.apache.spark.deploy.worker.Worker"
        self.workers.append(until_the_end(self.stack, self.folder, f"worker{number}", main, *WHERE, *room, self.master))
        said(self.folder / "master.log", "Registering worker", times=number)


def until_the_end(stack: ExitStack, folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    process = started(folder, name, *arguments)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


@contextmanager
def standalone_spark(folder: Path) -> Iterator[Standalone]:
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        until_the_end(stack, folder, "master", "org.apache.spark.deploy.master.Master", "--port", "0", *WHERE)
        line = said(folder / "master.log", "Starting Spark master at")
        made = Standalone(folder, line.split(" at ")[1].strip(), stack)
        for _ in range(2):
            made.add_worker()
        yield made
