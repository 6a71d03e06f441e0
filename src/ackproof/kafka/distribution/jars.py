"""Kafka's jars: fetched once, verified at every use, shared by all labs.

    $XDG_CACHE_HOME/ackproof/kafka/<version>/*.jar       one folder is one classpath
    $XDG_CACHE_HOME/ackproof/kafka/<version>/SHA256SUMS  the checksums of the first fetch, if the project pins none
    $XDG_CACHE_HOME/ackproof/kafka/spark-<version>/      the jars with which Spark reads from Kafka, for health checks
    $XDG_CACHE_HOME/ackproof/ivy/                        Ivy's own cache, with which an interrupted fetch continues

For the two default versions the project pins every jar by module, version and SHA-256. Any other release is resolved
at its first fetch, and later verified against the checksums of that fetch. To verify all jars takes about 30 ms, so it
is done each time. A folder appears whole, by a rename. A damaged jar is replaced alone, by a rename, so that a running
lab keeps the file that it has open. A fetch holds a lock, and so does the Ivy that it starts.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.host.java import Java
from ackproof.kafka.distribution.ivy import Ivy, Module, Progress

__all__ = [
    "DEFAULT_KRAFT",
    "DEFAULT_ZOOKEEPER",
    "Kafka",
    "bootstrap_checkpoint",
    "cache_root",
    "cached",
    "ensure",
    "ensure_connector",
    "parse_release",
]

DEFAULT_ZOOKEEPER = "3.9.2"
DEFAULT_KRAFT = "4.3.1"
CONNECTOR = "spark-4.0.0"  # fits the pyspark that the project requires; the only 4.0 release published whole

MANIFEST = "SHA256SUMS"
CHECKPOINT = "bootstrap.checkpoint"
LOCK_S_MAX = 1500.0
FORMAT_S_MAX = 60.0
VERSION = re.compile(r"([34])\.(\d{1,3})\.(\d{1,3})", re.ASCII)
BINDING = re.compile(r"(slf4j-(reload4j|log4j12|simple|jdk14|nop)|log4j-slf4j2?-impl|logback-classic)-\d")

RELOAD4J = "1.2.25"
SLF4J = "1.7.36"
LOG4J2 = "2.25.4"  # the backend and its binding must have the same version, so both are named

OPTIONAL = frozenset({"kafka-shell", "trogdor", "connect-file"})
"""Modules that some releases were published without. Only the tool of that name needs them."""

Manifest = Mapping[str, str]
"""SHA-256 by file name."""


@dataclass(frozen=True)
class Kafka:
    version: str
    directory: Path
    release: tuple[int, ...]

    @property
    def classpath(self) -> str:
        return f"{self.directory}/*"

    @property
    def title(self) -> str:
        return f"Kafka {self.version}" if self.release else "Spark's connector to Kafka"


def parse_release(version: str) -> tuple[int, ...]:
    found = VERSION.fullmatch(version)
    if found is None:
        raise UsageProblem(
            f"{version!r} is no release of Kafka 3 or 4: name one such as {DEFAULT_ZOOKEEPER} or {DEFAULT_KRAFT}."
        )
    return tuple(int(part) for part in found.groups())


def cache_root() -> Path:
    """Our folder in the user's cache directory. A relative XDG_CACHE_HOME is ignored, as its specification demands."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "ackproof"
    except RuntimeError:
        raise CannotHere("this user has no home directory: set HOME, or XDG_CACHE_HOME") from None


def ensure(version: str, java: Java, progress: Progress | None = None) -> Kafka:
    """The verified jars of this version. Missing or damaged jars are fetched first."""
    return _ensured(Kafka(version, cache_root() / "kafka" / version, parse_release(version)), java, progress)


def ensure_connector(java: Java, progress: Progress | None = None) -> list[Path]:
    """The jars with which Spark reads from Kafka. They must be files, because a health check runs without internet."""
    return sorted(
        _ensured(Kafka(CONNECTOR, cache_root() / "kafka" / CONNECTOR, ()), java, progress).directory.glob("*.jar")
    )


def _ensured(kafka: Kafka, java: Java, progress: Progress | None) -> Kafka:
    tell = progress or (lambda done, total, what: None)
    if _damage(kafka) == []:
        return kafka
    with _writable(kafka.directory.parent), _lock(kafka.directory.parent, tell) as lock:
        damaged = _damage(kafka)  # again: the process that held the lock before us may have fetched them
        if damaged != []:
            _bring(kafka, java, tell, damaged, lock)
            tell(len(_manifest(kafka) or ()), len(_manifest(kafka) or ()), f"{kafka.title} is ready")
    return kafka


def cached() -> dict[str, list[str] | None]:
    """The versions in the cache with the names of their damaged files. None: no checksums say what should be there."""
    try:
        names = sorted(entry.name for entry in (cache_root() / "kafka").iterdir() if VERSION.fullmatch(entry.name))
    except OSError:
        return {}
    return {name: _damage(Kafka(name, cache_root() / "kafka" / name, parse_release(name))) for name in names}


def _bring(kafka: Kafka, java: Java, tell: Progress, damaged: list[str] | None, lock: int) -> None:
    """Fetch into a folder of work, verify, and install. If a copy in Ivy's cache is damaged, fetch it once more."""
    what = kafka.title
    if damaged and kafka.directory.is_dir():
        what = f"{kafka.directory / damaged[0]}, which is damaged or missing,"
    work, ivy_cache = kafka.directory.parent / ".work", cache_root() / "ivy"
    modules = _pinned_modules(kafka.version)
    for last_try in (False, True):
        shutil.rmtree(work, ignore_errors=True)  # left by a killed process: we hold the lock, so no process uses it
        work.mkdir(parents=True)
        try:
            jars = Ivy(java, work, ivy_cache, lock).fetch(
                modules or _wanted(kafka), locked=bool(modules), what=what, progress=tell, optional=OPTIONAL
            )
            if wrong := _wrong(jars, kafka):
                _forget(ivy_cache, wrong)
                if not last_try:
                    continue
                raise CannotHere(
                    f"{wrong[0]} as fetched for {kafka.title} is not the file whose checksum is recorded, so it"
                    " was deleted: look for a proxy or mirror that alters files, then try again."
                )
            _install(jars, kafka)
            return
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _wrong(jars: Path, kafka: Kafka) -> list[str]:
    """The files that differ from the manifest. Without a manifest: CannotHere if Kafka could not start with them."""
    expected = _manifest(kafka)
    if expected is not None:
        return _differences(jars, expected)
    bindings = sorted(path.name for path in jars.glob("*.jar") if BINDING.match(path.name))
    if len(bindings) != 1:
        raise CannotHere(
            f"Kafka {kafka.version} came with logging backends {bindings}, not one: choose another version."
        )
    return []


def _install(jars: Path, kafka: Kafka) -> None:
    recorded = _manifest(kafka)
    sums = recorded if recorded is not None else _sums(jars, sorted(path.name for path in jars.glob("*.jar")))
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    (jars / MANIFEST).write_text("".join(lines), encoding="utf-8")
    if not kafka.directory.exists():
        jars.rename(kafka.directory)
        return
    for stranger in {path.name for path in kafka.directory.glob("*.jar")} - sums.keys():
        (kafka.directory / stranger).unlink()  # it would be on the classpath without having been verified
    for path in jars.iterdir():
        path.replace(kafka.directory / path.name)


def _forget(ivy_cache: Path, names: list[str]) -> None:
    for name in names:
        for path in ivy_cache.rglob(name):
            path.unlink(missing_ok=True)


def _damage(kafka: Kafka) -> list[str] | None:
    """The files that are missing, altered or unexpected. None if this version has no checksums yet."""
    expected = _manifest(kafka)
    if expected is None:
        return None
    return _differences(kafka.directory, expected)


def _differences(directory: Path, expected: Manifest) -> list[str]:
    there = {path.name for path in directory.glob("*.jar")}
    common = sorted(there & expected.keys())
    sums = _sums(directory, common)
    return sorted((there ^ expected.keys()) | {name for name in common if sums[name] != expected[name]})


def _sums(directory: Path, names: list[str]) -> dict[str, str]:
    """The SHA-256 of each file, computed in threads, because hashlib releases the interpreter lock."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        return dict(zip(names, pool.map(lambda name: _sha256(directory / name), names), strict=True))


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"


def _manifest(kafka: Kafka) -> Manifest | None:
    """The checksums that the project pins, else those that the first fetch recorded."""
    text = _pinned(f"{kafka.version}.sha256")
    if text is None:
        try:
            text = (kafka.directory / MANIFEST).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines()) if name}
    return sums or None


def _pinned(name: str) -> str | None:
    file = resources.files("ackproof.kafka.distribution") / "checksums" / name
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _pinned_modules(version: str) -> list[Module]:
    text = _pinned(f"{version}.modules") or ""
    return [Module(*line.split(":")) for line in text.splitlines() if line]


def _wanted(kafka: Kafka) -> list[Module]:
    """Server, tools, Connect with MirrorMaker 2, and the logging backend that Kafka 3 or 4 comes with."""
    names = ["kafka_2.13", "kafka-tools", "kafka-shell", "connect-runtime", "connect-file", "connect-mirror"]
    names += ["connect-mirror-client", "trogdor"]
    modules = [Module("org.apache.kafka", name, kafka.version) for name in names]
    if kafka.release >= (4,):
        parts = ("log4j-api", "log4j-core", "log4j-slf4j-impl")
        return modules + [Module("org.apache.logging.log4j", part, LOG4J2) for part in parts]
    return [*modules, Module("org.slf4j", "slf4j-reload4j", SLF4J), Module("ch.qos.reload4j", "reload4j", RELOAD4J)]


def bootstrap_checkpoint(kafka: Kafka, java: Java) -> Path | None:
    """The file that gives a new KRaft cluster its features, made once per version. None for versions without one.

    It is the same for every node and cluster. So a lab copies it beside a `meta.properties` of its own, and does not
    start a JVM for each node to format its storage.
    """
    if kafka.release < (3, 3):
        return None
    checkpoint = kafka.directory / CHECKPOINT
    if checkpoint.is_file() and checkpoint.stat().st_size > 0:
        return checkpoint
    with _writable(kafka.directory), _lock(kafka.directory, lambda done, total, what: None):
        work = kafka.directory / ".work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            _format(kafka, java, work).replace(checkpoint)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return checkpoint


def _format(kafka: Kafka, java: Java, work: Path) -> Path:
    """Format one storage with Kafka's own tool and its default features."""
    settings = work / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={work}/data\n",
        encoding="utf-8",
    )
    jvm = [str(java.path), "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", f"-Djava.io.tmpdir={work}"]
    tool = ["-cp", kafka.classpath, "kafka.tools.StorageTool", "format", "-t", "A" * 21 + "Q", "-c", str(settings)]
    try:
        answer = subprocess.run(
            jvm + tool, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FORMAT_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotHere(
            f"Kafka {kafka.version} did not format a storage within {FORMAT_S_MAX:.0f} s: try again."
        ) from None
    made = work / "data" / CHECKPOINT
    if answer.returncode != 0 or not made.is_file():
        last = (answer.stdout + answer.stderr).splitlines()[-8:]
        raise CannotHere(f"Kafka {kafka.version} could not format a storage for KRaft: choose another version.", last)
    return made


@contextmanager
def _lock(folder: Path, tell: Progress) -> Iterator[int]:
    """Let one process at a time write to this folder. A second one waits, says so, and then finds the work done."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + LOCK_S_MAX
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                tell(0, None, "waiting for another ackproof that is fetching Kafka")
            if time.monotonic() > deadline:
                raise CannotHere(
                    f"Another ackproof has held {folder}/.lock for {LOCK_S_MAX:.0f} s: end it, then try again."
                )
            time.sleep(0.1)
        yield lock
    finally:
        os.close(lock)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Turn a disk that is full or not writable into CannotHere."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CannotHere(
                f"{folder} has no space left: free 200 MB, or set XDG_CACHE_HOME to another disk."
            ) from None
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
            raise CannotHere(
                f"{folder} cannot be written ({error.strerror}): set XDG_CACHE_HOME to a writable directory."
            ) from None
        raise
