"""The process of a health check."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from ackproof.clients import health_check as process
from ackproof.health.check import HealthCheck
from ackproof.health.config import HealthConfig


def test_the_temporary_files_of_a_health_check_lie_in_the_memory_of_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint and Spark's folder: if the lab is killed, nothing else would remove them."""
    config = HealthConfig(
        topic="orders", line=1, bootstrap="", brokers={}, zookeeper={}, controllers={}, min_isr={}, jars=[],
        java_home="/java", folder=str(tmp_path),
    )  # fmt: skip
    places: list[str] = []

    def ran(health: HealthCheck) -> None:
        places.extend([health._checkpoint.name, tempfile.mkdtemp(), os.environ["TMPDIR"]])
        health._checkpoint.cleanup()

    monkeypatch.setattr(process, "read_config", lambda _: config)
    monkeypatch.setattr(HealthCheck, "run", ran)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("TMPDIR", "JAVA_HOME"):
        monkeypatch.setenv(name, "")
    assert process.main() == 0
    assert [Path(place).parent for place in places] == [tmp_path, tmp_path, tmp_path.parent]
