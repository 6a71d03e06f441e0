"""A run directory may come from a stranger: reading it takes little memory and never hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.journal.bounds import TEXT_MOST, parquet_bomb
from ackproof.journal.files import sealed_files
from ackproof.journal.writer import Writer
from tests.support.bombs import BOMBS, NOTHING, Plant, a_number_without_end, many_files, nested, spaces
from tests.support.histories import History
from tests.support.proving import size

Told = Callable[[str, object], None]
MOST = 2**30

READS = """
import json, sys
from pathlib import Path
from ackproof.judge.engine import numbers
from ackproof.judge.lab_lag import behind_ms, gaps_ms, latest_ms
from ackproof.judge.doubts import doubts
from ackproof.judge.engine.kept import Kept, kept_folder
from ackproof.judge.engine.suspect_blocks import first_seen
from ackproof.judge.run_source import Unreadable, opened

said = []
def asked(question):
    try:
        return question()
    except MemoryError:
        raise
    except Exception as problem:
        said.append(str(problem))

try:
    with opened(Path(sys.argv[1])) as source:
        said += [remark.text for remark in source.remarks if not remark.fit]
        for question in (behind_ms, gaps_ms, latest_ms, doubts):
            asked(lambda: question(source))
        asked(lambda: first_seen(source.files["state"]))
        asked(lambda: numbers.fold_reserved(numbers.reservations(source.files["blocks"])))
        with kept_folder(source) as kept:
            assert Kept(kept / "_folds").find("parts-0") is None
except Unreadable as problem:
    said.append(str(problem))
print(json.dumps(said))
"""


# Starts what is measured, because the kernel first counts the memory of a parent as that of its child.
MEASURES = """
import json, resource, subprocess, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
done = subprocess.run(sys.argv[2:], capture_output=True, text=True)
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps([done.returncode, done.stdout, done.stderr, memory]))
"""


def measured(command: list[str]) -> tuple[int, str, str, int]:
    """Exit code, both outputs and the most memory that it had. A bomb ends the test, not the machine: several times
    what is allowed is the limit."""
    arguments = [sys.executable, "-c", MEASURES, str(5 * MOST), *command]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    status, out, err, memory = json.loads(done.stdout)
    return status, out, err, memory


def a_run(directory: Path) -> Path:
    history = History()
    for seq in range(5):
        history.send(seq, seq).log(seq, seq)
    return history.write(directory)


@pytest.mark.proves("F3")
@pytest.mark.parametrize("plant", BOMBS, ids=[plant.__name__ for plant in BOMBS])
def test_the_judge_names_a_bomb_in_one_sentence_and_uses_little_memory(
    plant: Plant, tmp_path: Path, record_property: Told
) -> None:
    run = a_run(tmp_path / "run")
    plant(run)
    status, out, err, memory = measured([sys.executable, "-c", READS, str(run)])
    assert status == 0, err[-2_000:]
    said = json.loads(out)
    assert BOMBS[plant] == NOTHING or any(BOMBS[plant] in text for text in said), said
    assert all(text.count("\n") == 0 and len(text) < 400 for text in said)
    assert memory < MOST
    record_property("figure", f"{len(BOMBS)} bombs in run directories: each named, under 1 GiB in the judge's Python")


@pytest.mark.proves("F3")
@pytest.mark.parametrize("plant", size([*BOMBS][::4], [*BOMBS]), ids=lambda plant: plant.__name__)
def test_a_report_of_a_bomb_uses_little_memory(plant: Plant, tmp_path: Path) -> None:
    """The page says what it leaves out. If run.json cannot be read, or there are too many files, there is no page."""
    run = a_run(tmp_path / "run")
    plant(run)
    status, _, err, memory = measured([sys.executable, "-P", "-m", "ackproof", "report", str(run)])
    no_page = plant is many_files or "plan." in BOMBS[plant] or plant in (a_number_without_end, nested, spaces)
    assert (status, err.count("\n")) == ((2, 1) if no_page else (0, 0)), err
    assert (run / "report.html").exists() == (not no_page)
    assert memory < MOST


def test_a_text_that_we_write_is_cut_at_the_judges_bound(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "probes", 7, "run")
    for text in ("é" * TEXT_MOST, "short", "x" * TEXT_MOST):
        writer.add(fault=1, at_ns=1, held=True, text=text)
    writer.close()
    (path,) = sealed_files(tmp_path, "probes")
    assert parquet_bomb(path) is None
    with pq.ParquetFile(path) as file:
        texts = file.read(["text"])["text"].to_pylist()
    assert sorted(map(len, texts)) == [5, TEXT_MOST // 4, TEXT_MOST // 4]


def test_a_file_that_is_not_regular_is_named_and_never_read(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    os.mkfifo(run / "journal" / "sends" / "pipe.parquet")
    os.mkfifo(run / "journal" / "log" / "pipe.arrows")
    (run / "journal" / "reads" / "zeros.parquet").parent.mkdir(exist_ok=True)
    (run / "journal" / "reads" / "zeros.parquet").symlink_to("/dev/zero")
    (run / "journal" / "state" / "folder.parquet").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", READS, str(run)], capture_output=True, text=True, check=True, timeout=100
    )
    said = json.loads(done.stdout)
    ends = "cannot be read and was left out: it is not a regular file."
    link = "cannot be read and was left out: it is a link that leads out of the run directory, and is not followed."
    assert sorted(said)[:4] == [
        f"log/pipe.arrows {ends}", f"reads/zeros.parquet {link}",
        f"sends/pipe.parquet {ends}", f"state/folder.parquet {ends}",
    ]  # fmt: skip
