"""A long run with faults that a seed draws stays fit and is confirmed, and its memory does not grow."""

from __future__ import annotations

import json
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ackproof.journal.files import sealed_files
from ackproof.model.verdict import read_verdict
from tests.support.proving import size
from tests.support.real_lab import User, added_up, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.long]
Told = Callable[[str, object], None]

SECONDS, EVERY_S, LASTS_S = size((60, 20, 8), (1200, 30, 12))
RATE = 5_000
SEED = 8
AROUND_S = size(600, 1800)  # to start, to settle and to judge
GROWN_MB = 16  # less than 6 bytes for each message of the full size
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.mark.proves("B4", "S1")
@pytest.mark.timeout(SECONDS + AROUND_S)
def test_a_soak_is_confirmed_and_its_memory_stays_flat(us: User, tmp_path: Path, record_property: Told) -> None:
    sizes = {"producer.count": SECONDS * RATE // 2, "drawn.every_s": EVERY_S, "drawn.lasts_s": LASTS_S}
    settings = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    used: dict[str, list[float]] = defaultdict(list)
    with ThreadPoolExecutor(1) as pool:
        command = us.start("run", "soak", "--seed", str(SEED), "--out", str(tmp_path / "runs"), *settings)
        said = pool.submit(command.communicate)
        try:
            while not said.done():
                now = dict(memory_of(us, tmp_path, command.pid))
                for name in now if "producer1" in now else ():  # during the load
                    used[name].append(now[name])
                wait([said], timeout=1)
        finally:
            command.terminate()
    (run,) = (tmp_path / "runs").iterdir()
    verdict = read_verdict(run)
    assert (command.returncode, verdict.result) == (0, "confirmed"), "\n".join(said.result())
    assert [line for line in verdict.fitness if not line.fit] == []
    faults = [fault for fault in verdict.faults if fault.kind != "start"]
    assert len(faults) == SECONDS // EVERY_S - 1
    grown = {name: grown_by(samples) for name, samples in used.items() if len(samples) >= SECONDS // 2}
    assert set(grown) >= {"run", "supervisor", "observer", "producer1", "producer2", "consumer1", "consumer2"}
    assert max(grown.values()) < GROWN_MB, json.dumps(grown)
    most = max(grown, key=lambda name: grown[name])
    lasted_s = lasted(run)
    assert verdict.sent == SECONDS * RATE
    assert lasted_s < 1.02 * SECONDS, "the rate was not kept"
    record_property(
        "figure",
        f"{lasted_s / 60:.1f} minutes, {verdict.sent / lasted_s:,.0f} messages a second, {verdict.acked:,} of them "
        f"acknowledged under {len(faults)} faults: fit, confirmed; of our {len(grown)} processes {most} grew most, by "
        f"{grown[most]:.1f} MB",
    )
    record_property("figure", f"under {len(faults)} faults: {added_up(run)}")


def lasted(run: Path) -> float:
    """Return the seconds from the first message that a client was given to the last."""
    times = [pq.read_table(path, columns=["sent_ns"])["sent_ns"] for path in sealed_files(run, "sends")]
    first = min(pc.min(own).as_py() for own in times)
    return float(max(pc.max(own).as_py() for own in times) - first) / 1e9


def memory_of(us: User, folder: Path, command: int) -> Iterator[tuple[str, float]]:
    """Return the resident megabytes of each Python process of ours by its name, which a restarted consumer keeps."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_text().split("\0")
            resident = int((entry / "statm").read_text().split()[1]) * PAGE / 1e6
            told = " ".join(words)
            if int(entry.name) == command:
                yield "run", resident
            elif "ackproof.lab.server.supervisor" in words and str(us.state) in told:
                yield "supervisor", resident
            elif any(word.startswith("ackproof.clients.") for word in words) and str(folder) in told:
                yield Path(words[-2]).stem, resident


def grown_by(samples: list[float]) -> float:
    """Return the growth from the median of the second quarter to that of the last: memory needed once is no growth."""
    quarter = len(samples) // 4
    return statistics.median(samples[-quarter:]) - statistics.median(samples[quarter : 2 * quarter])
