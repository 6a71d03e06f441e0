"""`scripts/bench journal`: the size of kept journals on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from ackproof.journal.writer import Writer
from tests.support.scripts_as_modules import script

bench = script("bench_journal")
RUNS = Path(__file__).parents[2] / "recorded" / "runs"


def test_all_tables_of_a_run_count(tmp_path: Path) -> None:
    shutil.copytree(RUNS / "loss-isolated", tmp_path / "one")
    (found,) = bench.weights(tmp_path)
    files = list(tmp_path.glob("one/journal/*/*.parquet"))
    assert (found.run, found.section, found.files) == ("one", "A", len(files))
    assert found.bytes == sum(path.stat().st_size for path in files)
    assert found.events == 100 + 45, "sends, and what the healed log holds"


def test_a_run_that_is_sealed_again_is_measured_in_another_place(tmp_path: Path) -> None:
    shutil.copytree(RUNS / "loss-isolated", tmp_path / "one")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    (kept,), (anew,) = bench.weights(tmp_path), bench.weights(tmp_path, anew=True)
    assert anew.events == kept.events
    assert anew.files <= kept.files
    assert anew.bytes < kept.bytes, "the recorded files hold their schema twice"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_run_that_still_has_streams_is_left_out(tmp_path: Path) -> None:
    shutil.copytree(RUNS / "loss-isolated", tmp_path / "one")
    Writer(tmp_path / "one", "probes", 1, "another").close(seal=False)
    assert list(bench.weights(tmp_path)) == []


def test_what_is_above_the_goal_is_named() -> None:
    light, heavy = (bench.Weight(name, "A", "base", 10, size, 1_000) for name, size in (("a", 12_000), ("b", 12_100)))
    assert bench.in_words([light]) == "1 of 1 runs cost at most 12 bytes for each event."
    assert "Runs above it: b (12.1: 1,000 events in 10 files)." in bench.in_words([light, heavy])
