"""A log that is judged where it is: read from a cluster by Spark's connector, and nothing but read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from real_lab import RealLab, User, lab, ourselves

from ackproof.clients.common import pack
from ackproof.verdict import read_verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))
from histories import History

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
SENT, LOST = 50, 3
HIDDEN = "not-for-anybody-to-see"


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ourselves() as made:
        yield made


@pytest.fixture(scope="module")
def kafka(user: User) -> Iterator[RealLab]:
    """A cluster that has all but the last messages of a run, of one partition."""
    with lab(user, "kafka", "--brokers", "1", "--mode", "kraft", "--expose") as made:
        assert user.run("topic", "create", "orders", "--name", "kafka", "--replication", "1").returncode == 0
        client = Producer({"bootstrap.servers": made.status()["exposed"], "acks": "all", "broker.address.family": "v4"})
        for seq in range(SENT - LOST):
            client.produce("orders", pack(0, seq), partition=0)
        assert client.flush(30) == 0
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    history = History(expect={"lost": "required"}).fault(("asked", 5), ("proved", 6), ("healed", 90))
    for seq in range(SENT):
        history.send(seq, seq)
    directory = history.end(SENT).write(tmp_path / "a-run")
    for table in ("log", "ends"):
        for path in (directory / "journal" / table).iterdir():
            path.unlink()
    return directory


def test_what_the_cluster_lacks_is_lost(user: User, kafka: RealLab, run: Path, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(f"# of the one who asks\nclient.id={HIDDEN}\n")
    done = user.run(
        "judge", str(run), "--from-kafka", kafka.status()["exposed"], "--kafka-settings", str(settings), "--json"
    )
    assert done.returncode == 0, done.stderr
    verdict = read_verdict(run)
    assert (verdict.lost, verdict.acked, verdict.high_watermark) == (LOST, SENT, SENT - LOST)
    assert any("read from Kafka itself" in line.text for line in verdict.fitness)
    assert HIDDEN not in done.stdout + done.stderr
    assert not [path for path in run.rglob("*") if path.is_file() and HIDDEN.encode() in path.read_bytes()]
    assert not list((run / "journal" / "log").iterdir()), "no copy is left"


def test_nothing_is_written_to_the_cluster(user: User, kafka: RealLab, run: Path) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.status()["exposed"], "broker.address.family": "v4"})
    before = set(admin.list_topics(timeout=10).topics)
    assert user.run("judge", str(run), "--from-kafka", kafka.status()["exposed"]).returncode == 0
    assert set(admin.list_topics(timeout=10).topics) == before
    assert admin.list_consumer_groups().result().valid == []


def test_a_cluster_that_does_not_answer_is_named(user: User, run: Path) -> None:
    done = user.run("judge", str(run), "--from-kafka", "127.0.0.1:1")
    assert done.returncode == 4
    assert "the log could not be read from 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
