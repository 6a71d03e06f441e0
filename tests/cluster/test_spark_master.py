"""A judge whose Spark is a cluster, on loopback: a master and two workers, one of which may die; and Spark Connect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ackproof.kafka.java import find_java
from ackproof.verdict import read_verdict
from conftest import cannot_run
from scripts_as_modules import script

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
EVENTS = 600_000
START_S = 60.0


@dataclass(frozen=True)
class Standalone:
    master: str
    workers: list[subprocess.Popen[bytes]]


def started(folder: Path, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    """One of Spark's own programs, as its scripts start it; `spark-class` becomes the Java that it starts."""
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), main, *arguments]
    own = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_DAEMON_MEMORY": "512m"}
    environment = {**os.environ, **spark_environment(), **own}
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)


def spark_environment() -> dict[str, str]:
    return {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}


def said(log: Path, words: str, times: int = 1) -> str:
    """The first line with these words, once there are so many."""
    deadline = time.monotonic() + START_S
    while True:
        lines = [line for line in log.read_text(errors="replace").splitlines() if words in line]
        if len(lines) >= times:
            return lines[0]
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as stack:

        def run(name: str, *arguments: str) -> subprocess.Popen[bytes]:
            process = started(tmp_path, name, *arguments)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        run("master", "org.apache.spark.deploy.master.Master", "--port", "0", *where)
        line = said(tmp_path / "master.log", "Starting Spark master at")
        master = line.split(" at ")[1].strip()
        workers = [
            run(
                f"worker{number}", "org.apache.spark.deploy.worker.Worker", *where, "--cores", "1", "--memory", "1g",
                "--work-dir", str(tmp_path / f"work{number}"), master,
            )
            for number in (1, 2)
        ]  # fmt: skip
        said(tmp_path / "master.log", "Registering worker", times=2)
        yield Standalone(master, workers)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with losses, copies and changed places, judged on this machine."""
    bench: Any = script("bench_judge")
    bench.ROW_GROUP = 5_000  # so that there are many parts, and folding them has a middle
    directory = tmp_path_factory.mktemp("runs") / "made"
    bench.make(directory, EVENTS // 3, bench.plan(EVENTS // 3))
    judged(directory)
    assert read_verdict(directory).lost == EVENTS // 3 // 5_000
    return directory


def judged(
    directory: Path, *options: str, to_kill: subprocess.Popen[bytes] | None = None, packages: Path | None = None
) -> bytes:
    command = [sys.executable, "-m", "ackproof", "judge", str(directory), *options]
    environment = {**os.environ, **spark_environment(), **({"PYTHONPATH": str(packages)} if packages else {})}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as judge:
        assert judge.stderr is not None
        words = b""
        for line in judge.stderr:
            words += line
            if to_kill is not None and b"events folded" in line and to_kill.poll() is None:
                assert f"{EVENTS:,} of {EVENTS:,}".encode() not in line, "in the middle"
                to_kill.kill()
    assert judge.returncode == 0, words.decode()
    assert to_kill is None or to_kill.poll() is not None, "it was over before the worker died"
    assert not list(directory.glob(".*")), "nothing stays behind"
    return (directory / "verdict" / "verdict.json").read_bytes()


def test_the_verdict_is_the_same_though_a_worker_dies(made: Path, standalone: Standalone) -> None:
    alone = (made / "verdict" / "verdict.json").read_bytes()
    assert judged(made, "--master", standalone.master, to_kill=standalone.workers[0]) == alone


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"connect.grpc.binding.port": port, "connect.grpc.binding.address": "127.0.0.1", "ui.enabled": "false"}
    server = started(
        tmp_path, "connect", "org.apache.spark.deploy.SparkSubmit",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]",
        *(part for name, value in settings.items() for part in ("--conf", f"spark.{name}={value}")), "spark-internal",
    )  # fmt: skip
    try:
        said(tmp_path / "connect.log", "Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """What Spark Connect asks for besides, in a folder of its own: who does not connect must not come to rely on it."""
    home = Path(__file__).parents[2]
    wanted = tomllib.loads((home / "pyproject.toml").read_text())["project"]["optional-dependencies"]["connect"]
    folder = tmp_path / "packages"
    fetch = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "-c", str(home / "constraints.txt")]
    if subprocess.run([*fetch, *wanted], capture_output=True, timeout=300, check=False).returncode != 0:
        cannot_run("the packages of Spark Connect cannot be fetched")
    return folder


def test_spark_connect_gives_the_same_verdict(made: Path, connect: str, packages: Path) -> None:
    alone = (made / "verdict" / "verdict.json").read_bytes()
    assert judged(made, "--master", connect, packages=packages) == alone
