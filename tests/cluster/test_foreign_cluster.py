"""A foreign cluster: every request to it, as its own log has it, and its secrets, which appear nowhere."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from ackproof.kafka.distribution.jars import cache_root
from ackproof.lab.spec import USERS_PORT
from ackproof.model.message import pack
from ackproof.model.run_record import Clock, read_record, write_record
from ackproof.model.verdict import read_verdict
from tests.support.histories import FIRST_RUN, History
from tests.support.proving import size
from tests.support.real_lab import Done, RealLab, User, lab, ourselves
from tests.support.standalone_spark import Standalone, spark_environment, standalone_spark

pytestmark = [pytest.mark.cluster, pytest.mark.in_one_process, pytest.mark.timeout(400)]
Told = Callable[[str, object], None]

SENT, LOST = 50, 3
SECRET = "s3cr3t-f0r-n0b0dy"  # noqa: S105  what all of them have in common, and none of them is


def secret_of(setting: str) -> str:
    """Return a secret for each setting, so that none is hidden only because another one is."""
    return f"{setting.replace('.', '-')}-{SECRET}"


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="{}";'
# Settings of every kind that Kafka's client has: passwords, texts, lists, addresses, and an unknown one.
SHAPES = {
    "client.rack": "{}",
    "debug": "all,{}",
    "group.id": "{}",
    "sasl.jaas.config": JAAS,
    "sasl.kerberos.service.name": "{}",
    "sasl.oauthbearer.token.endpoint.url": "https://bob:{}@example.invalid/token",
    "ssl.cipher.suites": "{}",
    "ssl.key.password": "{}",
    "ssl.keystore.certificate.chain": "{}",
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----",
    "ssl.keystore.password": "{}",
    "ssl.truststore.location": "/nowhere/{}",
    "ssl.truststore.password": "{}",
    "what.nobody.knows": "{}",
}
EVERY_SETTING = {name: shape.format(secret_of(name)) for name, shape in SHAPES.items()}
ERRORS = {
    "a number that is none": {"request.timeout.ms": secret_of("request")},
    "a class that is none": {"metric.reporters": secret_of("metric")},
    "a login that is none": {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": secret_of("jaas"),
    },
    "a store that is not there": {
        "security.protocol": "SSL",
        "ssl.keystore.location": f"/nowhere/{secret_of('store')}",
    },
    "a broker that wants no login": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
}
DEBUG = "-Djava.security.debug=logincontext,configfile,configparser -Djavax.net.debug=ssl"
EVERYTHING_LOGGED = """
appender.told.type = File
appender.told.name = told
appender.told.fileName = {path}
appender.told.layout.type = PatternLayout
rootLogger.level = debug
rootLogger.appenderRef.told.ref = told
"""
READS = {
    "API_VERSIONS", "DESCRIBE_CLUSTER", "DESCRIBE_CONFIGS", "DESCRIBE_TOPIC_PARTITIONS", "FETCH", "LIST_OFFSETS",
    "METADATA",
}  # fmt: skip


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ourselves() as made:
        yield made


@pytest.fixture(scope="module")
def theirs(user: User) -> Iterator[RealLab]:
    """Yield a cluster that has all messages of a run but the last, and logs every request."""
    with lab(user, "theirs", "--brokers", "1", "--mode", "kraft", "--expose") as made:
        made.topic("create", "orders", "--replication", "1", "--set", "retention.ms=-1")
        client = Producer({"bootstrap.servers": made.status()["exposed"], "acks": "all", "broker.address.family": "v4"})
        for seq in range(SENT - LOST):
            client.produce("orders", pack(0, seq), partition=0, timestamp=FIRST_RUN // 1000 + seq)  # as in the run
        assert client.flush(30) == 0
        kind = ("--entity-type", "broker-loggers", "--entity-name", "1")
        made.do("kafka", "configs", *kind, "--alter", "--add-config", "kafka.request.logger=DEBUG")
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    history = History(expect={"lost": "required"}).fault(("asked", 5), ("proved", 6), ("healed", 90))
    for seq in range(SENT):
        history.send(seq, seq)
    directory = history.end(SENT).write(tmp_path / "runs" / "a-run")
    for table in ("log", "ends"):
        for path in (directory / "journal" / table).iterdir():
            path.unlink()
    return directory


WRITTEN = {
    "plain": f"password={SECRET}",
    "quoted for an address": "https://bob:x-" + SECRET.replace("-", "%2D") + "@example.invalid",
    "quoted whole": "".join(f"%{byte:02x}" for byte in SECRET.encode()),
    "escaped in JSON": '{"a": "' + SECRET.replace("-", "\\u002d") + '"}',
    "escaped whole": "".join(f"\\u{byte:04X}" for byte in SECRET.encode()),
    **{
        f"in base64 behind {name!r}": base64.b64encode(f"{name}:{SECRET}:and more".encode()).decode()
        for name in ("a", "ab", "abc")
    },
    "in base64 at its end": base64.urlsafe_b64encode(SECRET.encode()).decode(),
}


@pytest.mark.proves("F5")
@pytest.mark.parametrize("form", WRITTEN)
def test_these_tests_find_a_secret_in_every_form(form: str, tmp_path: Path) -> None:
    for name in ("temporary", "run"):
        (tmp_path / name).mkdir()
    with looking_for(SECRET, [tmp_path / "temporary", tmp_path / "run"], tmp_path / "theirs") as found:
        (tmp_path / "temporary" / "log").write_text(f"before {WRITTEN[form]} after")
        (tmp_path / "run" / "harmless").write_text(f"before {SECRET[:-1]} after")
    assert found.places == {str(tmp_path / "temporary" / "log")}


@pytest.mark.proves("F5", "F6")
def test_a_foreign_cluster_is_only_read_and_its_secrets_appear_nowhere(
    user: User, theirs: RealLab, run: Path, tmp_path: Path, record_property: Told
) -> None:
    broker_log = theirs.folder / "logs" / "kafka1.log"
    before = broker_log.stat().st_size
    done, looks = judged_with(user, theirs, run, tmp_path, EVERY_SETTING)
    assert done.returncode == 0, done.stderr
    verdict = read_verdict(run)
    assert (verdict.lost, verdict.acked, verdict.high_watermark) == (LOST, SENT, SENT - LOST)
    assert any("read from Kafka itself" in line.text for line in verdict.fitness)
    assert not list((run / "journal" / "log").iterdir()), "no copy is left"
    asked = requests(broker_log.read_text(errors="replace")[before:])
    names = {name for name, _ in asked}
    assert {"METADATA", "FETCH", "LIST_OFFSETS"} <= names <= READS
    # A request that names no topic, and asks only for the brokers, creates none.
    makes_topics = [line for _, line in asked if '"allowAutoTopicCreation":true' in line and '"topics":[]' not in line]
    assert makes_topics == []
    assert theirs.do("kafka", "consumer-groups", "--list").strip() == ""
    record_property(
        "figure", f"{len(asked)} requests of {len(names)} kinds, each of them a question: {', '.join(sorted(names))}"
    )
    record_property(
        "figure",
        f"{len(EVERY_SETTING)} settings, each with a secret of its own: none in any output, file, command line or "
        f"environment in {looks} looks, be it plain, quoted, escaped or in base64",
    )


@pytest.mark.proves("F5")
@pytest.mark.long
def test_workers_that_read_it_write_no_secret(
    user: User, theirs: RealLab, run: Path, tmp_path: Path, record_property: Told
) -> None:
    """They write none to their logs, to which Kafka's client writes its settings, nor to any other file."""
    with standalone_spark(tmp_path / "spark") as spark:
        done, looks = judged_with(user, theirs, run, tmp_path, EVERY_SETTING, spark)
        assert done.returncode == 0, done.stderr
        assert list(spark.folder.glob("work*/app-*/*/stderr")), "the workers write to this folder"
    verdict = read_verdict(run)
    assert (verdict.lost, verdict.acked, verdict.high_watermark) == (LOST, SENT, SENT - LOST)
    assert not list(run.glob(".*")), "no copy is left"
    record_property("figure", f"read by workers of a Spark master: in no file of theirs in {looks} looks")


@pytest.mark.proves("C7")
@pytest.mark.long
def test_the_log_of_another_run_is_no_evidence(user: User, theirs: RealLab, run: Path, record_property: Told) -> None:
    record = read_record(run)
    began, ended = (
        Clock(clock.wall_ns + 10**12, clock.monotonic_ns) for clock in (record.began, record.ended_at or record.began)
    )
    write_record(run, msgspec.structs.replace(record, began=began, ended_at=ended))
    done = user.run("judge", str(run), "--from-kafka", theirs.status()["exposed"])
    assert done.returncode == 3, done.stdout + done.stderr
    assert "it is not its log" in done.stdout
    record_property("figure", "a run judged by the log of another of the same scenario: exit 3 with the reason")


def test_a_cluster_that_does_not_answer_is_named(user: User, run: Path) -> None:
    done = user.run("judge", str(run), "--from-kafka", "127.0.0.1:1")
    assert done.returncode == 4
    assert "the log could not be read from 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.proves("F5")
@pytest.mark.long
def test_a_cluster_with_a_login_is_read_by_a_user_who_has_one(user: User, tmp_path: Path) -> None:
    """The judge reads where the clients are, from the listener that asks for a login."""
    done = user.run(
        "run", "access", "--mode", "kraft", "--no-judge", "--keep", "--out", str(tmp_path / "runs"), timeout_s=200
    )
    (run,) = (tmp_path / "runs").iterdir()
    (folder,) = (user.state / "ackproof" / "labs").glob("run-*")
    kept = RealLab(user, folder.name)
    try:
        assert done.returncode == 0, done.stderr
        for path in (run / "journal" / "log").iterdir():
            path.unlink()
        mallory = json.loads((folder / "users.json").read_text())["mallory"]
        refused, told = judged_as("mallory", "not-" + mallory, kept, run, tmp_path)
        assert refused == 4
        assert "authentication failed" in told.lower()
        assert mallory not in told
        refused, told = judged_as("mallory", mallory, kept, run, tmp_path)
        assert refused == 4, (
            "permission to read is not enough, because the judge also asks whether the topic is compacted"
        )
        assert "needs Describe, DescribeConfigs and Read on the topics" in told
        rule = ("--allow-principal", "User:mallory", "--operation", "DescribeConfigs", "--topic", "orders")
        kept.do("kafka", "acls", "--add", *rule)
        code, told = judged_as("mallory", mallory, kept, run, tmp_path)
        assert code == 0, told
        verdict = read_verdict(run)
        assert (verdict.result, verdict.acked, verdict.lost, verdict.high_watermark) == ("confirmed", 2_000, 0, 2_000)
    finally:
        kept.close()


def judged_as(name: str, password: str, kept: RealLab, run: Path, folder: Path) -> tuple[int, str]:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{name}" password="{password}";'
    file = folder / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    command = [kept.user.python, "-m", "ackproof", "judge", str(run)]
    command += ["--from-kafka", f"kafka1:{USERS_PORT}", "--kafka-settings", str(file)]
    done = kept.user.run("exec", "--name", kept.name, "client", "--", *command)
    assert password not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.proves("F5")
@pytest.mark.parametrize("error", [*ERRORS][: size(1, len(ERRORS))])
def test_an_error_does_not_tell_the_secret(
    user: User, theirs: RealLab, run: Path, tmp_path: Path, error: str, record_property: Told
) -> None:
    done, _ = judged_with(user, theirs, run, tmp_path, EVERY_SETTING | ERRORS[error])
    assert done.returncode == 4, done.stderr
    assert "the log could not be read from" in done.stderr
    assert "Traceback" not in done.stderr
    record_property("figure", f"{error}: told without the secret")


def judged_with(
    user: User, theirs: RealLab, run: Path, folder: Path, settings: dict[str, str], spark: Standalone | None = None
) -> tuple[Done, int]:
    """Judge with debugging on, and search every place for the secret meanwhile. Return the outcome and the searches."""
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    temporary, home = folder / "temporary", folder / "home"
    temporary.mkdir()
    home.mkdir()
    address = theirs.status()["exposed"]
    logged = folder / "logged"
    (folder / "log4j2.properties").write_text(EVERYTHING_LOGGED.format(path=logged))
    debug = f"{DEBUG} -Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
    cache = cache_root()
    own = {"TMPDIR": str(temporary), "HOME": str(home), "XDG_CACHE_HOME": str(cache.parent), "JAVA_TOOL_OPTIONS": debug}
    options = ["--from-kafka", address, "--kafka-settings", str(file), "--json"]
    if spark is not None:
        own |= spark_environment()
        options += ["--master", spark.master]
    asking = replace(user, environment={**user.environment, **own})
    folders = [temporary, run, home, cache, user.state, *([spark.folder] if spark else [])]
    with looking_for(SECRET, folders, theirs.folder) as found:
        done = asking.run("judge", str(run), *options, timeout_s=300)
    assert not logged.exists(), "the judge's Java keeps its own log settings in any environment"
    assert found.places == set()
    assert not is_told(forms_of(SECRET), (done.stdout + done.stderr).encode())
    assert found.open_to_others == set()
    return done, found.looks


def forms_of(secret: str) -> set[bytes]:
    """Return the secret as it is, and as it looks in an address, a JSON document, a log, a header and a Java string."""
    plain = secret.encode()
    forms = {plain, plain.hex().encode(), secret.encode("utf-16-le"), secret.encode("utf-16-be")}
    for escape in ("%{:02X}", "%{:02x}", "\\u{:04x}", "\\u{:04X}", "\\x{:02x}"):
        forms.add("".join(escape.format(byte) for byte in plain).encode())  # all of it, or what has to be at most
        forms.add("".join(c if c.isalnum() else escape.format(ord(c)) for c in secret).encode())
    for before in range(3):  # its base64 depends on where in a group of three bytes it begins
        first, end = (
            (before * 8 + 5) // 6,
            (before + len(plain)) * 8 // 6,
        )  # the characters that come from the secret alone
        encoded = base64.b64encode(bytes(before) + plain)[first:end]
        forms |= {encoded, encoded.translate(bytes.maketrans(b"+/", b"-_"))}
    return forms


class Found:
    def __init__(self) -> None:
        self.looks = 0
        self.places: set[str] = set()
        self.open_to_others: set[str] = set()


@contextmanager
def looking_for(secret: str, folders: list[Path], theirs: Path) -> Iterator[Found]:
    """Look for the secret, in all its forms, while the block runs.

    It looks in every command line and environment of the machine, and in every file below these folders that is written
    from now on, except what the other cluster itself logs of its clients. A file is read again after each change and at
    the end: workers get copies of many large jars.
    """
    found, over, forms = Found(), threading.Event(), forms_of(secret)
    read: dict[Path, int] = {}  # and its time of writing
    began_ns = time.time_ns() - 10**9  # the clock for the times of files is a little late

    def look() -> None:
        files = [Path(place) / name for folder in folders for place, _, names in os.walk(folder) for name in names]
        at_ns = {path: written_ns(path) for path in files if not path.is_relative_to(theirs)}
        written = [path for path, at in at_ns.items() if at >= max(began_ns, read.get(path, 0) + 1)]
        read.update(at_ns)
        for path in [*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ"), *written]:
            with suppress(OSError):
                if path.is_file() and is_told(forms, path.read_bytes()):
                    found.places.add(str(path))
        # Files below a closed folder are closed too. With a Spark master the run itself has some.
        for path in [*folders[0].iterdir(), *folders[1].glob(".*")]:
            with suppress(OSError):
                if stat.S_IMODE(path.lstat().st_mode) & 0o077:
                    found.open_to_others.add(path.name)
        found.looks += 1

    def look_on() -> None:
        while not over.wait(0.1):
            look()

    looking = threading.Thread(target=look_on)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()
        read.clear()
        look()


def is_told(forms: set[bytes], where: bytes) -> bool:
    return any(form in where for form in forms)


def written_ns(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:  # it has ended already
        return 0


def requests(log: str) -> list[tuple[str, str]]:
    """Return the kind of each request that the broker answered, and the line that the broker logged."""
    lines = [line for line in log.splitlines() if "requestApiKeyName" in line]
    kinds = [json.loads(re.findall(r'"requestApiKeyName":("\w+")', line)[0]) for line in lines]
    return [*zip(kinds, lines, strict=True)]
