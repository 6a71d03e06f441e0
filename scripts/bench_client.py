"""Measure how fast the producer is: `scripts/bench client`.

On one lab, one topic of one partition and three replicas, 16-byte values, acks=all, linger 5 ms, taking turns:

    ours              our producer at full speed, every outcome in the journal
    ours, no journal  the same producer with an empty callback, and nothing written
    perf-test         Kafka's own producer-perf-test

Each runs with its own default batch size (librdkafka's 1 MB, perf-test's 16 KB), and all run with 256 KB.

Messages a second from the first send to the last acknowledgement; medians of all rounds but the first, in which the
brokers warm up. No figure makes the bench fail.
"""

from __future__ import annotations

import argparse
import gc
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec
from performance import keep

from ackproof.cli.ui.console import console, say_json, table
from ackproof.clients.producer.config import ProducerConfig
from ackproof.clients.producer.main import ProducerLoop
from ackproof.clients.runtime import Progress, read_config
from ackproof.host.own_program import own_program
from ackproof.lab import client as control

HOME = Path(__file__).resolve().parents[1]
LAB = "bench-client"
WAIT_S = 300.0
BATCHES = {"default": {"ours": 1_000_000, "perf-test": 16_384}, "256 KB": {"ours": 262_144, "perf-test": 262_144}}


class Unwritten(ProducerLoop):
    """Our producer with an empty callback and without a journal. It only counts what it sent."""

    def __init__(self, config: ProducerConfig) -> None:
        super().__init__(config)
        self._reports.delivered = lambda error, message: None

    def _reserve(self, seq: int) -> None:
        self._reserved = self._config.count

    def _finish(self) -> None:
        count = len(self._in_flight)
        self._progress.write(1, count, count, 0, 0, 1)


def main() -> int:
    options = argparse.ArgumentParser(description="How fast the producer is.")
    options.add_argument("--count", type=int, default=2_000_000)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--mode", default="zookeeper")
    options.add_argument("--json", action="store_true")
    options.add_argument("--write", action="store_true", help="write the figures to docs/performance.md too")
    given = options.parse_args()
    subprocess.run([str(HOME / "ackproof"), "up", "--name", LAB, "--mode", given.mode], check=True, stdout=sys.stderr)
    try:
        found = measure(given.count, given.repeats)
    finally:
        subprocess.run([str(HOME / "ackproof"), "down", "--name", LAB], check=False, stdout=sys.stderr)
    if given.json:
        say_json(found)
    else:
        show(found)
    if given.write:
        write(
            found, f"scripts/bench client --count {given.count} --repeats {given.repeats} --mode {given.mode} --write"
        )
    return 0


def measure(count: int, repeats: int) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    for number in range(-1, repeats):
        for size, batches in BATCHES.items():
            turn = (("ours", ours), ("ours, no journal", bare), ("perf-test", perf_test))
            for name, rate in turn if number % 2 else turn[::-1]:
                batch = batches["perf-test" if rate is perf_test else "ours"]
                topic = f"{name.replace(', ', '-').replace(' ', '-')}-{batch}-{number + 1}"
                subprocess.run(
                    [str(HOME / "ackproof"), "topic", "create", topic, "--name", LAB], check=True, stdout=sys.stderr
                )
                measured = rate(topic, count, batch)
                print(f"{name}, {size}: {measured:,.0f} a second", file=sys.stderr, flush=True)
                if number >= 0:  # the first round warms the brokers up
                    rates.setdefault(f"{name}, {size}", []).append(measured)
    return {name: median(values) for name, values in rates.items()}


def bootstrap() -> str:
    where: str = control.call(LAB, "bootstrap")["bootstrap"]
    return where


def ours(topic: str, count: int, batch: int) -> float:
    return run_producer(topic, count, batch, own_program("ackproof.clients.producer.main"))


def bare(topic: str, count: int, batch: int) -> float:
    return run_producer(topic, count, batch, [sys.executable, __file__])


def run_producer(topic: str, count: int, batch: int, program: list[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-") as name:
        folder = Path(name)
        config = ProducerConfig(
            run=1, directory=name, id=0, name="producer", topic=topic, topic_id=0, bootstrap=bootstrap(), count=count,
            rate=None, acks="all", size=16, keys=None, print=False, go=str(folder / "go"),
            progress=str(folder / "progress"), flush_s=WAIT_S, settings={"linger.ms": 5, "batch.size": batch},
        )  # fmt: skip
        path = folder / "config.json"
        path.write_bytes(msgspec.json.encode(config))
        argv = [*program, str(path)]
        log = str(folder / "log")
        control.call(LAB, "spawn", process=topic, node="client", argv=argv, output=log)
        wait_for(lambda: ready(folder / "progress"))
        begun = time.monotonic()
        (folder / "go.new").write_text(str(time.monotonic_ns()))
        (folder / "go.new").rename(folder / "go")
        page = Progress(folder / "progress")
        wait_for(lambda: page.read()["done"] == 1)
        took_s = time.monotonic() - begun
        if (acked := page.read()["acked"]) != count:
            raise SystemExit(f"only {acked} of {count} were acknowledged: {Path(log).read_text()}")
        return count / took_s


def ready(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0 and Progress(path).read()["ready"] == 1


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the producer did not come to an end")
        time.sleep(0.002)


def perf_test(topic: str, count: int, batch: int) -> float:
    settings = [f"bootstrap.servers={bootstrap()}", "acks=all", "linger.ms=5", f"batch.size={batch}"]
    command = [str(HOME / "ackproof"), "kafka", "--name", LAB, "producer-perf-test", "--topic", topic]
    command += ["--num-records", str(count), "--record-size", "16", "--throughput", "-1", "--producer-props", *settings]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S).stdout
    *_, last = re.findall(r"([\d.]+) records/sec", said)
    return float(last)


COLUMNS = ("producer", "messages a second", "ours / it")


def lines(found: dict[str, float]) -> list[list[str]]:
    return [
        [f"{name}, batches {size}", f"{found[f'{name}, {size}']:,.0f}", f"{ratio(found, name, size):.2f}"]
        for size in BATCHES
        for name in ("ours", "ours, no journal", "perf-test")
    ]


def ratio(found: dict[str, float], name: str, size: str) -> float:
    return found[f"ours, {size}"] / found[f"{name}, {size}"]


def show(found: dict[str, float]) -> None:
    made = table(*COLUMNS, right=COLUMNS[1:])
    for line in lines(found):
        made.add_row(*line)
    console().print(made)


def write(found: dict[str, float], command: str) -> None:
    own, *_ = BATCHES
    keep(
        "client",
        "The producer",
        command,
        "The table compares our producer, which writes every outcome to the journal, with the same producer with an"
        " empty callback and no journal (goal: at least 0.8 of its rate), and with Kafka's own"
        " `kafka-producer-perf-test` in the same lab (goal: at least 1.2 of its rate with its default batches). All"
        " send at full speed: 16-byte values, acks=all, linger 5 ms, one partition, three replicas. The figures are"
        " medians.",
        list(COLUMNS),
        lines(found),
        f"With {own} batches our producer reaches {ratio(found, 'ours, no journal', own):.2f} of its rate without a"
        f" journal, and {ratio(found, 'perf-test', own):.2f} of the rate of perf-test.",
    )


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].endswith(".json"):  # as `bare` starts it, in the lab
        gc.disable()
        Unwritten(read_config(ProducerConfig)).run()
    else:
        sys.exit(main())
