"""Fetching, checking and mending jars. A program in place of java does what Ivy does with the list of wanted jars."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.host.java import Java, find_java
from ackproof.kafka.distribution import ivy, jars
from tests.support.fake_ivy import fake_ivy, publish, put
from tests.support.lab_network import wait_until

PINNED = jars._pinned  # as it is, where a test has put something in its place


@dataclass(frozen=True)
class Repository:
    place: Path

    @property
    def java(self) -> Java:
        return Java(self.place, self.place / "java", 17, "17")

    @property
    def calls(self) -> int:
        calls = self.place / "calls"
        return len(calls.read_text().split()) if calls.exists() else 0

    def says(self, text: str) -> None:
        (self.place / "say").write_text(text)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with Kafka 3.5.0, an empty cache, and nothing pinned."""
    made = Repository(tmp_path / "public")
    publish(made.place / "repository", "3.5.0")
    made.java.path.write_text(fake_ivy(sys.executable))
    made.java.path.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ACKPROOF_IVY_SETTINGS", raising=False)
    monkeypatch.setattr(jars, "_pinned", lambda name: None)
    return made


def pin(monkeypatch: pytest.MonkeyPatch, modules: str, sums: dict[str, str]) -> None:
    files = {"3.5.0.modules": modules, "3.5.0.sha256": "".join(f"{sums[name]}  {name}\n" for name in sums)}
    monkeypatch.setattr(jars, "_pinned", files.get)


def left_over() -> list[str]:
    return sorted(path.name for path in (jars.cache_root() / "kafka").iterdir() if path.name != ".lock")


def test_the_first_call_fetches_and_tells_how_far_it_is(repository: Repository) -> None:
    told: list[tuple[int, int | None, str]] = []
    kafka = jars.ensure("3.5.0", repository.java, lambda *progress: told.append(progress))
    assert (kafka.directory / "kafka_2.13-3.5.0.jar").read_text() == "the bytes of kafka_2.13-3.5.0"
    assert kafka.classpath == f"{jars.cache_root()}/kafka/3.5.0/*"
    assert kafka.release == (3, 5, 0)
    assert told[0] == (0, None, "found kafka_2.13 3.5.0")
    assert told[1] == (1, None, "fetched kafka_2.13 3.5.0")
    assert told[-1] == (10, 10, "Kafka 3.5.0 is ready")
    assert left_over() == ["3.5.0"]


@pytest.mark.proves("F7")
def test_later_calls_start_no_java(repository: Repository) -> None:
    jars.ensure("3.5.0", repository.java)
    jars.ensure("3.5.0", repository.java)
    assert repository.calls == 1


@pytest.mark.proves("F7")
@pytest.mark.parametrize("harm", ["damaged", "cut short", "missing"])
def test_a_harmed_jar_is_mended_and_the_others_stay_as_they_are(harm: str, repository: Repository) -> None:
    kafka = jars.ensure("3.5.0", repository.java)
    jar, before = kafka.directory / "kafka-tools-3.5.0.jar", (kafka.directory / "kafka-tools-3.5.0.jar").read_bytes()
    if harm == "damaged":
        jar.write_bytes(before.replace(b"b", b"B", 1))
    elif harm == "cut short":
        jar.write_bytes(b"")
    else:
        jar.unlink()
    jars.ensure("3.5.0", repository.java)
    assert jar.read_bytes() == before
    assert repository.calls == 2


def test_a_jar_that_nobody_asked_for_leaves_the_classpath(repository: Repository) -> None:
    kafka = jars.ensure("3.5.0", repository.java)
    (kafka.directory / "stranger-1.jar").write_text("unchecked")
    jars.ensure("3.5.0", repository.java)
    assert not (kafka.directory / "stranger-1.jar").exists()


@pytest.mark.proves("E2")
def test_a_harmed_jar_that_cannot_be_fetched_again_is_named(repository: Repository) -> None:
    kafka = jars.ensure("3.5.0", repository.java)
    (kafka.directory / "kafka-tools-3.5.0.jar").unlink()
    repository.says("\t\tHost example not found. url=https://example/x")
    with pytest.raises(CannotHere, match=r"kafka-tools-3\.5\.0\.jar, which is damaged.*connect to the network"):
        jars.ensure("3.5.0", repository.java)


@pytest.mark.proves("F7")
def test_what_differs_from_the_first_fetch_is_never_used(repository: Repository) -> None:
    kafka = jars.ensure("3.5.0", repository.java)
    (kafka.directory / "kafka-tools-3.5.0.jar").unlink()
    (repository.place / "repository" / "kafka-tools-3.5.0.jar").write_text("another file of the same name")
    (jars.cache_root() / "ivy" / "kafka-tools-3.5.0.jar").unlink()
    with pytest.raises(CannotHere, match="checksum is recorded"):
        jars.ensure("3.5.0", repository.java)
    assert not (kafka.directory / "kafka-tools-3.5.0.jar").exists()
    assert not (jars.cache_root() / "ivy" / "kafka-tools-3.5.0.jar").exists()


@pytest.mark.proves("F7")
def test_pinned_jars_are_held_to_their_checksums(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = "org.apache.kafka:kafka_2.13:3.5.0\n"
    pin(monkeypatch, modules, {"kafka_2.13-3.5.0.jar": "0" * 64})
    with pytest.raises(CannotHere, match=r"kafka_2\.13-3\.5\.0\.jar as fetched .* was deleted"):
        jars.ensure("3.5.0", repository.java)
    assert left_over() == []
    pin(monkeypatch, modules, {"kafka_2.13-3.5.0.jar": hashlib.sha256(b"the bytes of kafka_2.13-3.5.0").hexdigest()})
    told: list[tuple[int, int | None, str]] = []
    jars.ensure("3.5.0", repository.java, lambda *progress: told.append(progress))
    assert (1, 1, "fetched kafka_2.13 3.5.0") in told


def test_a_damaged_copy_in_ivys_cache_is_fetched_once_more(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(b"the bytes of kafka_2.13-3.5.0").hexdigest()
    pin(monkeypatch, "org.apache.kafka:kafka_2.13:3.5.0\n", {"kafka_2.13-3.5.0.jar": digest})
    copy = jars.cache_root() / "ivy" / "kafka_2.13-3.5.0.jar"
    copy.parent.mkdir(parents=True)
    copy.write_text("half of it")
    jars.ensure("3.5.0", repository.java)
    assert repository.calls == 2


def test_a_release_without_an_optional_module_serves(repository: Repository) -> None:
    (repository.place / "repository" / "trogdor-3.5.0.jar").unlink()
    kafka = jars.ensure("3.5.0", repository.java)
    assert not (kafka.directory / "trogdor-3.5.0.jar").exists()
    assert (kafka.directory / "kafka_2.13-3.5.0.jar").exists()


def test_a_release_that_does_not_exist_cannot_be_fetched(repository: Repository) -> None:
    with pytest.raises(CannotHere, match=r"^Kafka 3\.99\.0 cannot be fetched: .* choose another version"):
        jars.ensure("3.99.0", repository.java)
    assert left_over() == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("\tHost example not found. url=https://example", "connect to the network"),
        ("\tServer access error at url https://example (java.io.IOException)", "connect to the network"),
        ("java.io.IOException: No space left on device", "disk is full.*XDG_CACHE_HOME"),
        ("java.io.FileNotFoundException: /x (Read-only file system)", "cannot be written.*XDG_CACHE_HOME"),
        ("something else", "Ivy failed"),
    ],
)
def test_why_ivy_failed_is_one_sentence_with_the_way_out(said: str, told: str, repository: Repository) -> None:
    repository.says(said)
    with pytest.raises(CannotHere, match=told):
        jars.ensure("3.5.0", repository.java)
    assert left_over() == []


def test_an_ivy_that_says_nothing_is_ended(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "QUIET_S_MAX", 0.3)
    repository.java.path.write_text("#!/bin/sh\nexec sleep 60\n")
    began = time.monotonic()
    with pytest.raises(CannotHere, match="did not answer"):
        jars.ensure("3.5.0", repository.java)
    assert time.monotonic() - began < 3


def test_a_cache_that_cannot_be_made_names_the_way_out(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    file = repository.place / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    with pytest.raises(CannotHere, match="set XDG_CACHE_HOME"):
        jars.ensure("3.5.0", repository.java)


@pytest.mark.proves("A1")
def test_a_fetch_that_is_killed_leaves_nothing_and_the_next_begins_at_once(repository: Repository) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from ackproof.kafka.distribution import jars; from ackproof.host.java import Java\n"
        "jars._pinned = lambda name: None\n"
        "jars.ensure('3.5.0', Java(Path(sys.argv[1]), Path(sys.argv[1]) / 'java', 17, '17'))"
    )
    hang = repository.place / "hang"
    hang.touch()
    fetching = subprocess.Popen([sys.executable, "-c", program, str(repository.place)])
    try:
        wait_until(lambda: repository.calls == 1, "Ivy fetches")
    finally:
        fetching.kill()
        fetching.wait()
    lock = os.open(jars.cache_root() / "kafka" / ".lock", os.O_RDWR)
    try:
        wait_until(lambda: free(lock), "Ivy is gone, and its lock with it")
    finally:
        os.close(lock)
    hang.unlink()
    assert jars.ensure("3.5.0", repository.java).directory.is_dir()
    assert left_over() == ["3.5.0"]


def free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_two_first_calls_at_once_fetch_once(repository: Repository) -> None:
    waited: list[str] = []
    both = [
        threading.Thread(target=jars.ensure, args=("3.5.0", repository.java, lambda *told: waited.append(told[2])))
        for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(30)
    assert repository.calls == 1
    assert any(line.startswith("waiting for another") for line in waited)


@pytest.mark.parametrize(
    "version", ["3.9", "2.8.0", "5.0.0", "../3.9.2", "3.9.2\n", "3.9.2-rc1", "", "3.٩.2", "3.9.2/.."]
)
def test_only_a_release_of_three_or_four_is_a_version(version: str, repository: Repository) -> None:
    with pytest.raises(UsageProblem, match="is no release of Kafka 3 or 4"):
        jars.ensure(version, repository.java)
    assert repository.calls == 0


# -- Spark's connector -----------------------------------------------------------------------------------------------


@pytest.fixture
def connector(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The jars of the pinned modules, each with bytes and a checksum of its own."""
    modules = (resources.files("ackproof.kafka.distribution") / "checksums" / f"{jars.CONNECTOR}.modules").read_text()
    names = ["-".join(line.split(":")[1:]) for line in modules.split()]
    for name in names:
        put(repository.place / "repository", name)
    sums = [f"{hashlib.sha256(f'the bytes of {name}'.encode()).hexdigest()}  {name}.jar\n" for name in names]
    pinned = {f"{jars.CONNECTOR}.modules": modules, f"{jars.CONNECTOR}.sha256": "".join(sums)}
    monkeypatch.setattr(jars, "_pinned", pinned.get)
    found = jars.ensure_connector(repository.java)
    assert [path.name for path in found] == sorted(f"{name}.jar" for name in names)
    assert jars.ensure_connector(repository.java) == found
    assert repository.calls == 1
    return found


@pytest.mark.proves("F7")
@pytest.mark.parametrize("harm", ["damaged", "cut short", "missing", "a stranger beside it"])
@pytest.mark.parametrize("place", range(4))
def test_a_harmed_jar_of_sparks_connector_is_mended(
    harm: str, place: int, repository: Repository, connector: list[Path]
) -> None:
    jar, before = connector[place], connector[place].read_bytes()
    if harm == "damaged":
        jar.write_bytes(before.replace(b"b", b"B", 1))
    elif harm == "cut short":
        jar.write_bytes(b"")
    elif harm == "missing":
        jar.unlink()
    else:
        (jar.parent / "stranger-1.jar").write_text("unchecked")
    assert jars.ensure_connector(repository.java) == connector
    assert jar.read_bytes() == before
    assert repository.calls == 2


@pytest.mark.proves("F7")
@pytest.mark.parametrize("place", range(4))
def test_a_jar_of_sparks_connector_that_is_not_the_pinned_one_is_never_used(
    place: int, repository: Repository, connector: list[Path]
) -> None:
    jar = connector[place]
    jar.unlink()
    (repository.place / "repository" / jar.name).write_text("another file of the same name")
    (jars.cache_root() / "ivy" / jar.name).unlink()
    with pytest.raises(CannotHere, match=rf"{jar.name} as fetched for Spark's connector .* was deleted"):
        jars.ensure_connector(repository.java)
    assert not jar.exists()


@pytest.mark.proves("F7")
def test_sparks_connector_is_held_to_the_checksums_that_the_project_pins(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """All four jars have the right names and wrong bytes."""
    folder = resources.files("ackproof.kafka.distribution") / "checksums"
    monkeypatch.setattr(jars, "_pinned", lambda name: (folder / name).read_text())
    names = {line.split("  ")[1] for line in (folder / f"{jars.CONNECTOR}.sha256").read_text().splitlines()}
    for name in names:
        put(repository.place / "repository", name.removesuffix(".jar"))
    with pytest.raises(CannotHere, match="as fetched for Spark's connector to Kafka is not the file whose checksum"):
        jars.ensure_connector(repository.java)
    assert left_over() == []
    record_property("figure", f"{len(names)} jars of Spark's connector, each harmed in turn: mended, or never used")


@pytest.mark.proves("F7")
@pytest.mark.parametrize("version", [jars.DEFAULT_ZOOKEEPER, jars.DEFAULT_KRAFT])
def test_a_default_release_is_held_to_the_checksums_that_the_project_pins(
    version: str,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """All jars have the right names and wrong bytes: none is used, and each is detected by its own checksum line."""
    pinned = (resources.files("ackproof.kafka.distribution") / "checksums" / f"{version}.sha256").read_text()
    names = [line.split("  ")[1] for line in pinned.splitlines()]
    monkeypatch.setattr(jars, "_pinned", PINNED)
    for name in names:
        put(repository.place / "repository", name.removesuffix(".jar"))
    with pytest.raises(CannotHere, match=rf"{re.escape(min(names))} as fetched for Kafka {re.escape(version)} is not"):
        jars.ensure(version, repository.java)
    assert repository.calls == 2, "it was fetched once more before it was given up"
    assert left_over() == []
    assert not list((jars.cache_root() / "ivy").glob("*.jar"))
    there = jars.Kafka(version, repository.place / "repository", jars.parse_release(version))
    assert set(names) <= set(jars._damage(there) or ())
    record_property("figure", f"Kafka {version}: {len(names)} jars of other bytes, each found out, and none used")


@pytest.mark.proves("F7")
@pytest.mark.parametrize("version", [jars.DEFAULT_ZOOKEEPER, jars.DEFAULT_KRAFT, jars.CONNECTOR])
def test_the_pinned_lists_agree_and_have_one_logging_backend_where_kafka_runs(version: str) -> None:
    folder = resources.files("ackproof.kafka.distribution") / "checksums"
    lines = [line.split("  ") for line in (folder / f"{version}.sha256").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    modules = jars._pinned_modules(version)
    assert {f"{module.name}-{module.version}.jar" for module in modules} == sums.keys()
    assert all(len(digest) == 64 for digest in sums.values())
    assert len([name for name in sums if jars.BINDING.match(name)]) == (version != jars.CONNECTOR)  # Spark has its own


@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [jars.DEFAULT_ZOOKEEPER, jars.DEFAULT_KRAFT])
def test_the_real_jars_are_fetched_and_format_a_storage(version: str) -> None:
    java = find_java()
    kafka = jars.ensure(version, java)
    checkpoint = jars.bootstrap_checkpoint(kafka, java)
    assert checkpoint is not None
    assert b"metadata.version" in checkpoint.read_bytes()
    assert jars.cached()[version] == []
