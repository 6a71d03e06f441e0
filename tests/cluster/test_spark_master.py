"""The judge with a Spark cluster on loopback, whose workers die, and with Spark Connect."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ackproof.model.verdict import read_verdict
from tests.support.scripts_as_modules import script
from tests.support.skips import cannot_run
from tests.support.standalone_spark import Standalone, said, spark_environment, standalone_spark, started

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
EVENTS = 240_000


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    with standalone_spark(tmp_path / "spark") as made:
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal with losses, copies and swapped messages, and its verdict from this machine."""
    bench: Any = script("bench_judge")
    bench.ROW_GROUP = 5_000  # so that there are many parts, and a worker can die in the middle of folding
    directory = tmp_path_factory.mktemp("runs") / "made"
    bench.make(directory, EVENTS // 3, bench.plan(EVENTS // 3))
    judged(directory)
    assert read_verdict(directory).lost == EVENTS // 3 // 5_000
    return directory


def judged(
    directory: Path, *options: str, at: Mapping[bytes, Callable[[], None]] | None = None, packages: Path | None = None
) -> bytes:
    """Judge a run by its name, from its folder, because workers have other folders. Return the output.

    `at` holds what is done when the output has these words for the first time.
    """
    command = [sys.executable, "-m", "ackproof", "judge", directory.name, *options]
    environment = {**os.environ, **spark_environment()}
    if packages is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    to_do = dict(at or {})
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, cwd=directory.parent
    ) as judge:
        assert judge.stderr is not None
        words = b""
        for line in judge.stderr:
            words += line
            for due in [each for each in to_do if each in line]:
                done, of = re.findall(rb"([\d,]+) of ([\d,]+) ", line)[0]
                assert done != of, "the words came in the middle of the work"
                to_do.pop(due)()
    assert judge.returncode == 0, words.decode()
    assert to_do == {}, f"it was over before that: {words.decode()}"
    assert not list(directory.glob(".*")), "nothing is left"
    return (directory / "verdict" / "verdict.json").read_bytes()


def test_the_verdict_is_the_same_if_workers_die(made: Path, standalone: Standalone) -> None:
    """One worker dies while events are folded and is replaced; another dies while checks run."""
    alone = (made / "verdict" / "verdict.json").read_bytes()

    def replace_the_first() -> None:
        standalone.workers[0].kill()
        standalone.add_worker()

    at = {b"events folded": replace_the_first, b"questions answered": standalone.workers[1].kill}
    assert judged(made, "--master", standalone.master, at=at) == alone
    assert [worker.poll() is None for worker in standalone.workers] == [False, False, True]


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
    """Install what Spark Connect needs in a folder of its own, so that other tests do not depend on it."""
    home = Path(__file__).parents[2]
    wanted = tomllib.loads((home / "pyproject.toml").read_text())["project"]["optional-dependencies"]["connect"]
    folder = tmp_path / "packages"
    fetch = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "-c", str(home / "constraints.txt")]
    if subprocess.run([*fetch, *wanted], capture_output=True, timeout=300, check=False).returncode != 0:
        cannot_run("the packages of Spark Connect cannot be fetched")
    return folder


@pytest.mark.long
@pytest.mark.network
def test_spark_connect_gives_the_same_verdict(made: Path, connect: str, packages: Path) -> None:
    alone = (made / "verdict" / "verdict.json").read_bytes()
    assert judged(made, "--master", connect, packages=packages) == alone
