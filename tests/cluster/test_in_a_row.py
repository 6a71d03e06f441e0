"""Labs in a row, made by one process: what it holds open, its memory and its files stay as they are."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from real_lab import ourselves

from ackproof.cli_lab import gather
from ackproof.errors import CannotHere
from ackproof.kafka.jars import DEFAULT_ZOOKEEPER
from ackproof.lab import control, launch
from ackproof.lab.processes import resident_mb
from ackproof.lab.spec import LabSpec
from ackproof.screen import Steps
from proving import size

pytestmark = pytest.mark.cluster
LABS = size(4, 50)
REAL_EVERY = 5
GROWTH_MB = 5.0
SPEC = LabSpec(kafka=DEFAULT_ZOOKEEPER, name="row", mode="zookeeper", brokers=1, quorum=1)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with ourselves() as user:
        monkeypatch.setenv("XDG_STATE_HOME", str(user.state))
        monkeypatch.setenv("TMPDIR", user.environment["TMPDIR"])
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield user.state


@pytest.mark.proves("A8")
@pytest.mark.timeout(60 + 30 * LABS)
def test_labs_in_a_row_use_up_neither_descriptors_nor_memory_nor_files(
    folder: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    dies = tmp_path / "java"
    dies.write_text("#!/bin/sh\nexit 1\n")
    dies.chmod(0o755)
    ingredients = gather(SPEC, Steps("row"))

    def real() -> None:
        launch.launch(SPEC, ingredients, lambda _: None).detach()
        assert {node["state"] for node in control.status(SPEC.name)["nodes"]} == {"running", "namespace"}
        control.down(SPEC.name)

    def stand_in() -> None:
        with pytest.raises(CannotHere, match="died while starting"):
            launch.launch(SPEC, replace(ingredients, java=str(dies)), lambda _: None)

    def held() -> tuple[int, list[str]]:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir())), sorted(str(path) for path in folder.rglob("*"))

    real()
    stand_in()
    before, memory_mb = held(), resident_mb(os.getpid())
    for number in range(LABS):
        real() if number % REAL_EVERY == 0 else stand_in()
        assert held() == before
    grown_mb = resident_mb(os.getpid()) - memory_mb
    assert grown_mb < GROWTH_MB
    reals = len(range(0, LABS, REAL_EVERY))
    record_property(
        "figure",
        f"{LABS} labs in a row, {reals} of them with real nodes: {before[0]} descriptors and {len(before[1])} files "
        f"before and after, {grown_mb:+.1f} MB",
    )
