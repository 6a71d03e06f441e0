"""Labs in a row in one process use up no descriptors, no memory and no files, and leave the host as it was."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.proving import size
from tests.support.real_lab import (
    User,
    an_ordinary_user,
    assert_clean,
    on_the_host,
    ourselves,
    with_stand_ins_that_serve,
)

pytestmark = [pytest.mark.cluster, pytest.mark.long]
KINDS = ["real", "stand-ins", "stand-ins", "stand-ins", "dying"] * size(1, 10)
LABS = len(KINDS)
GROWTH_MB = 5.0
ROW = (Path(__file__).parents[1] / "support" / "row.py").read_text()


@pytest.mark.proves("A8")
@pytest.mark.timeout(60 + 30 * LABS)
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_labs_in_a_row_use_up_neither_descriptors_nor_memory_nor_files(
    who: Callable[[], AbstractContextManager[User]], record_property: Callable[[str, object], None]
) -> None:
    before = on_the_host()
    with who() as user, with_stand_ins_that_serve(user) as other:
        java = Path(other.environment["JAVA_HOME"]) / "bin" / "java"
        row = user.start_python("-c", ROW, " ".join(KINDS), str(java))
        try:
            first = told = next_of(row)
            for _ in range(LABS):
                told = next_of(row)
                assert (told["descriptors"], told["files"]) == (first["descriptors"], first["files"])
                assert_clean(user, before, but=[row.pid])
        finally:
            row.kill()
            row.communicate()
    grown_mb = told["memory_mb"] - first["memory_mb"]
    assert grown_mb < GROWTH_MB
    counted = Counter(KINDS)
    record_property(
        "figure",
        f"{who.__name__.replace('_', ' ')}: {LABS} labs in a row, {counted['real']} of them with real nodes, "
        f"{counted['stand-ins']} with stand-ins that serve, {counted['dying']} whose first node dies: "
        f"{first['descriptors']} descriptors and {len(first['files'])} files before and after, {grown_mb:+.1f} MB",
    )


def next_of(row: subprocess.Popen[str]) -> dict[str, Any]:
    """Start one more lab, and return what the process then holds."""
    assert row.stdin is not None
    assert row.stdout is not None
    row.stdin.write("\n")
    row.stdin.flush()
    line = row.stdout.readline()
    assert line, row.communicate()[1]
    told: dict[str, Any] = json.loads(line)
    return told
