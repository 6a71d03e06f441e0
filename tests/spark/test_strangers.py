"""The judge's Spark listens on loopback, where any user of the machine can connect. Only its own user may use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import pytest

from ackproof.health.rate_query import SETTINGS
from ackproof.spark.session import Extras, Session, collected, warm
from tests.support.spark_stranger import ENDPOINTS

Told = Callable[[str, object], None]
Result = TypeVar("Result")
STRANGER = Path(__file__).parents[1] / "support" / "spark_stranger.py"
NOBODY = 65_534
READ_IT = "RpcFailure"  # the answer of a Spark that read the object and could not use it


def ports_of(pid: int) -> Iterator[int]:
    """Return the ports on which a process listens."""
    sockets = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                yield int(fields[1].rpartition(":")[2], 16)


def told_to_a_stranger(session: Session) -> dict[str, str]:
    assert session.jvm is not None
    ports = [str(port) for port in sorted(set(ports_of(session.jvm.process.pid)))]
    assert len(ports) >= 3, "the ports of the gateway, the driver and its block manager"
    program = STRANGER.read_text()  # the folder may be closed to other users
    command = [sys.executable, "-I", "-c", program, str(NOBODY), *ports]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == len(ports) * (len(ENDPOINTS) + 1)
    return dict(told)


def in_its_own_process(folder: Path, function: Callable[..., Result], *arguments: object) -> Result:
    """Run in a new process: a process has at most one Spark, and the test process may have one already."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(work_in, folder).result()
        return pool.submit(function, *arguments).result()


def work_in(folder: Path) -> None:
    os.chdir(folder)
    tempfile.tempdir = str(folder)


def told_by(settings: dict[str, str]) -> dict[str, str]:
    with warm("local[1]", extras=Extras(settings=settings)) as session:
        told = told_to_a_stranger(session)
        assert collected(session.spark.range(3).selectExpr("sum(id) AS sum"))[0]["sum"] == 3
        assert session.spark.conf.get("spark.authenticate") == "true"
        command = Path(f"/proc/{session.jvm.process.pid}/cmdline").read_bytes() if session.jvm else b""
        assert b"secret" not in command
    return told


@pytest.mark.proves("F4")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["the judge's", "the health check's"])
def test_a_stranger_is_refused_at_every_port(settings: dict[str, str], tmp_path: Path, record_property: Told) -> None:
    told = in_its_own_process(tmp_path, told_by, settings)
    let_in = {port: words for port, words in told.items() if READ_IT in words}
    assert let_in == {}
    commands = {port: words for port, words in told.items() if port.endswith("Py4J")}
    assert not any(words.startswith("!yL") for words in commands.values()), commands
    record_property("figure", f"{len(told)} calls of another user to every port of the judge's Java: all refused")


def one_more_than(numbers: list[int]) -> list[int]:
    with warm("local[1]") as session:
        return session.spark.sparkContext.parallelize(numbers, 1).map(lambda number: number + 1).collect()


@pytest.mark.proves("F3")
def test_python_workers_import_nothing_from_the_users_working_directory(tmp_path: Path) -> None:
    """Java starts them with `-m`, which searches the working directory first."""
    (tmp_path / "pyspark").mkdir()
    for name in ("pyspark/__init__.py", "numpy.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('planted')\n")
    assert in_its_own_process(tmp_path, one_more_than, [1, 2]) == [2, 3]
