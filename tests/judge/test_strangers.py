"""The judge's Spark listens on loopback, where any user of the machine can connect. None but its own may ask it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spark_stranger import ENDPOINTS

from ackproof.health.stream import SETTINGS
from ackproof.judge.spark import Extras, Session, collected, warm

Told = Callable[[str, object], None]
STRANGER = Path(__file__).parent / "spark_stranger.py"
NOBODY = 65_534
READ_IT = "RpcFailure"  # the answer of a Spark that read the object and found no use for it


def ports_of(pid: int) -> Iterator[int]:
    """On which a process listens."""
    sockets = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                yield int(fields[1].rpartition(":")[2], 16)


def told_to_a_stranger(session: Session) -> dict[str, str]:
    assert session.jvm is not None
    ports = [str(port) for port in sorted(set(ports_of(session.jvm.process.pid)))]
    assert len(ports) >= 3, "the gateway, the driver and its blocks"
    program = STRANGER.read_text()  # the folder may be closed to other users
    command = [sys.executable, "-I", "-c", program, str(NOBODY), *ports]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == len(ports) * (len(ENDPOINTS) + 1)
    return dict(told)


@pytest.mark.proves("F4")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["the judge's", "the health check's"])
def test_a_stranger_is_refused_at_every_port(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Told
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with warm("local[1]", extras=Extras(settings=settings)) as session:
        told = told_to_a_stranger(session)
        assert collected(session.spark.range(3).selectExpr("sum(id) AS sum"))[0]["sum"] == 3
        assert session.spark.conf.get("spark.authenticate") == "true"
        command = Path(f"/proc/{session.jvm.process.pid}/cmdline").read_bytes() if session.jvm else b""
        assert b"secret" not in command
    let_in = {port: words for port, words in told.items() if READ_IT in words}
    assert let_in == {}
    commands = {port: words for port, words in told.items() if port.endswith("Py4J")}
    assert not any(words.startswith("!yL") for words in commands.values()), commands
    record_property("figure", f"{len(told)} calls of another user to every port of the judge's Java: all refused")


@pytest.mark.proves("F3")
def test_workers_in_python_import_nothing_from_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java starts them with `-m`, which looks in the working directory first."""
    (tmp_path / "pyspark").mkdir()
    for name in ("pyspark/__init__.py", "numpy.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('planted')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with warm("local[1]") as session:
        assert session.spark.sparkContext.parallelize([1, 2], 1).map(lambda number: number + 1).collect() == [2, 3]
