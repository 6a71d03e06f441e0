"""Spark, kept out of the user's sight: one session, loopback only, its words in a file, nothing left behind.

The Java process is started here rather than by `SparkSession.builder`, because its standard output and error have to go
to a file from its first line on: what a JVM says while it starts is never for the person who asked for a verdict. It
ends with our process however that ends, because it reads a pipe that we hold.

Most journals are small, so the session is set up to begin quickly: starting and compiling are dearer than the rows.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from ackproof.core.errors import CannotHere
from ackproof.host.locked_folder import make_locked, take_away_unlocked
from ackproof.host.own_program import SAFE_PATH
from ackproof.spark.jvm import DidNotStart, Jvm, start

# From so many rows on a journal is worth exchanges, broadcasts and plans that adapt.
LARGE_ROWS = 3_000_000

CONNECT = "sc://"
FOLDER = "ackproof-spark-"
CORES_ELSEWHERE = 8
MEMORY = os.environ.get("ACKPROOF_JUDGE_MEMORY", "2g")  # of the judge's own Java

_QUIET = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = Console
appender.file.name = file
appender.file.target = SYSTEM_ERR
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.hadoop.name = org.apache.hadoop.util.NativeCodeLoader
logger.hadoop.level = off
"""


@dataclass
class Session:
    """A running Spark and the folder that holds all its temporary files."""

    spark: SparkSession
    folder: Path
    jvm: Jvm | None
    lock: int  # of the folder, for as long as Spark runs
    connected: bool = False  # to a Spark that somebody else runs, by Spark Connect

    @property
    def is_local(self) -> bool:
        """Whether its workers are of this machine."""
        return self.jvm is not None

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def close(self) -> None:
        try:
            self._end()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self.lock)

    def _end(self) -> None:
        if self.connected:
            with suppress(Exception):  # it may be gone already
                self.spark.stop()
            return
        gateway = self.spark.sparkContext._gateway
        try:
            with suppress(Exception):  # it may be dead already; what matters is that it is gone afterwards
                self.spark.stop()
            with suppress(Exception):
                gateway.shutdown()  # type: ignore[union-attr]
        finally:
            SparkContext._active_spark_context = None
            SparkContext._gateway = None
            SparkContext._jvm = None
            (self.jvm or _submitted(gateway)).close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Extras:
    """What somebody other than the judge wants of a session: further jars, other settings, another heap."""

    jars: Sequence[Path] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    memory: str = MEMORY


def warm(master: str = "local[*]", large: bool = False, extras: Extras | None = None) -> Session:
    """Start Spark: one to four seconds, which a caller may spend while something else is still going on.

    `large` lets Java compile a second time, better, which pays from millions of rows on.
    """
    if SparkContext._active_spark_context is not None:
        raise RuntimeError("this process already has a Spark session")
    _silence()
    take_away_unlocked(FOLDER)
    folder, lock = make_locked(FOLDER)
    try:
        if master.startswith(CONNECT):
            return Session(_connected_to(master, folder), folder, None, lock, connected=True)
        spark, jvm = _start(master, folder, large, extras or Extras())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        raise
    return Session(spark, folder, jvm, lock)


def _connected_to(address: str, folder: Path) -> SparkSession:
    """A Spark that is there already; what `_settings` says of a session it is told here."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        spark = SparkSession.builder.remote(address).getOrCreate()
        for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"):
            spark.conf.set(name, _settings(address, folder)[name])
        spark.addArtifacts(_our_code(folder), pyfile=True)
    except ImportError as error:
        how = "in the clone, .venv/bin/pip install -c constraints.txt -e '.[connect]' brings them"
        raise CannotHere(f"Spark Connect needs packages that are not here; {how}") from error
    except Exception as error:
        raise CannotHere(f"{address} does not answer:", [first_line(error)]) from error
    return spark


def cores(spark: SparkSession) -> int:
    """How many tasks run at once; a Spark of somebody else does not say, nor does one that died."""
    try:
        return spark.sparkContext.defaultParallelism
    except (PySparkException, Py4JError, OSError):
        return CORES_ELSEWHERE


def _silence() -> None:
    """pyspark prints a page of JSON for an error that it also raises; py4j has its own opinions."""
    for name in ("py4j", "pyspark"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _start(master: str, folder: Path, large: bool, extras: Extras) -> tuple[SparkSession, Jvm | None]:
    (folder / "log4j2.properties").write_text(_QUIET)
    settings = {**_settings(master, folder), **extras.settings}
    conf = SparkConf(loadDefaults=False)
    jvm: Jvm | None = None
    with (folder / "spark.log").open("wb") as log:
        try:
            if master.startswith("local"):
                _look_for_loopback()
                jvm = start(settings, _java_options(folder, large), folder, log, extras.memory, extras.jars)
                gateway = _connect(jvm)
            else:
                settings["spark.driver.extraJavaOptions"] = " ".join(_java_options(folder, large))
                settings |= {"spark.jars": ",".join(map(str, extras.jars))} if extras.jars else {}
                conf.setAll(list(settings.items()))
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError, DidNotStart) as error:
            said = (folder / "spark.log").read_text(errors="replace").splitlines()[-5:]
            raise CannotHere("Spark's Java did not start; is Java 17 or newer on the PATH?", said) from error
    conf.setAll(list(settings.items()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the workers; not whichever is first on the PATH
    try:
        spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        if not master.startswith("local"):
            spark.sparkContext.addPyFile(_our_code(folder))
        # If we are killed, Java sees its input end, and takes the folder away.
        java: Any = gateway.jvm
        java.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(java.java.io.File(str(folder)))
        return spark, jvm
    except BaseException as error:
        why = first_line(error)
        SparkContext._gateway = None
        SparkContext._jvm = None
        (jvm or _submitted(gateway)).close()
        if not isinstance(error, Exception):
            raise
        if master.startswith("spark://") and "stopped SparkContext" in why:  # all that Spark says of it
            raise CannotHere(f"no Spark master answers at {master}: start it, or name another") from error
        raise CannotHere("Spark did not start:", [why]) from error


def _look_for_loopback() -> None:
    """In a network namespace of its own it is down until somebody brings it up; of that Java says nothing clear."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.connect(("127.0.0.1", 9))  # looks for a way there, and sends nothing
    except OSError as error:
        raise CannotHere(
            f"Spark talks to us over loopback, and 127.0.0.1 cannot be reached ({error.strerror}): `ip link set lo up`"
        ) from error


def _connect(jvm: Jvm) -> Any:
    """pyspark connects to a Java that is already there if the environment says where."""
    asked = {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret}
    os.environ.update(asked)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in asked:
            del os.environ[name]
    return gateway


def _submitted(gateway: Any) -> Jvm:
    return Jvm(gateway.proc, 0, "")


def _java_options(folder: Path, large: bool) -> list[str]:
    options = [
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Djava.io.tmpdir={folder}",
        f"-XX:ErrorFile={folder}/died.log",
        "-XX:-UsePerfData",  # its file would stay where Java is killed
        "-XX:+UseSerialGC",  # no threads beside ours on a small machine
    ]
    # In short work the second compiler would never earn its time back.
    return [*options, f"-Xms{MEMORY}"] if large else [*options, "-XX:TieredStopAtLevel=1"]


def _settings(master: str, folder: Path) -> dict[str, str]:
    settings = {
        "spark.master": master,
        "spark.app.name": "ackproof judge",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.cleaner.referenceTracking": "false",
        # Some 500 classes of generated code; the default of 100 compiles them again and again.
        "spark.sql.codegen.cache.maxEntries": "4000",
        "spark.sql.codegen.useIdInClassName": "false",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",  # read five times, not kept
        **{f"spark.executorEnv.{name}": value for name, value in SAFE_PATH.items()},  # of workers in Python
    }
    if not master.startswith("local"):
        settings["spark.driver.memory"] = MEMORY
        # Workers write at INFO how Kafka's client was set up, with secrets in it. A log4j2.properties of theirs
        # is above this. setLogLevel, which claims to reach them, was seen not to.
        settings["spark.executor.extraJavaOptions"] = "-Dlog4j2.level=WARN"
    else:
        # Alone on this machine: nobody else has any business with it.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder),
            # Any user of this machine can connect to loopback, and Spark reads Java objects out of what it is sent. The
            # secret is drawn by Spark itself and never leaves its memory: nothing of ours has to know it.
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.saslFallback": "false",
        }
    return settings


def fit_to(spark: SparkSession, rows: int, small: bool) -> None:
    """Set the session up for a journal of this size; `small` where one partition holds each table.

    Tables of one partition are joined and grouped where they lie: no exchange, no broadcast, and all checks together
    are one stage. For a run of ordinary size that is most of the time saved, for the rows cost less than the stages.
    """
    partitions = 1 if small else max(2, 2 * cores(spark), min(4096, rows // 1_000_000))
    for name, value in {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.autoBroadcastJoinThreshold": "-1" if small else "10m",
        "spark.sql.adaptive.enabled": str(not small).lower(),
        "spark.sql.maxSinglePartitionBytes": "1t" if small else "128m",
    }.items():
        spark.conf.set(name, value)


def _our_code(folder: Path) -> str:
    """For workers of other machines, which have Python, Spark, numpy and pyarrow, and not us; each fetches it when it
    is given its first task, so it has to stay where it is."""
    home = Path(__file__).parents[1]
    path = folder / "ackproof.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for file in sorted(home.rglob("*.py")):
            packed.write(file, Path("ackproof") / file.relative_to(home))
    return str(path)


def few_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: T.StructType) -> DataFrame:
    """Rows of ours, in one partition: through Arrow, so that Spark holds them itself and knows how many they are.

    `createDataFrame` of a list keeps them with Python, which is then asked again, in a process of its own, by each
    question that touches them.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return few_columns(spark, dict(zip(schema.names, columns, strict=True)), schema)


def few_columns(spark: SparkSession, columns: Mapping[str, Any], schema: T.StructType) -> DataFrame:
    """The same, from columns."""
    arrow = to_arrow_schema(schema)
    arrays = [pa.array(columns[field.name], field.type) for field in arrow]
    table = pa.Table.from_arrays(arrays, schema=arrow)
    return spark.createDataFrame(table, schema).coalesce(1)


def collected(frame: DataFrame) -> list[Row]:
    """The rows of a frame that is small by nature."""
    with sockets_left_alone():
        return frame.collect()


@contextmanager
def sockets_left_alone() -> Iterator[None]:
    """pyspark leaves the socket that rows came through to the collector. Not for one thread among others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def first_line(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """An error in one line: the rest of what Spark says is for its log. What is to be hidden is hidden before anything
    is cut off, for half of a secret is not known for one."""
    text = ""
    with suppress(Exception):  # even an error's text is asked of Java, which may be gone by now
        text = str(error.getMessage()) if isinstance(error, PySparkException) else str(error)
        cause = getattr(error, "java_exception", None)
        while cause is not None:
            text = str(cause.toString())
            cause = cause.getCause()
    lines = [line.strip() for line in hide(text).splitlines() if line.strip()]
    told = lines[0] if lines else "no more is known"
    return (told if hasattr(error, "java_exception") and lines else f"{type(error).__name__}: {told}")[:300]
