"""A Spark session that the user does not notice: on loopback only, its output in a file, and nothing left behind.

We start the Java process here, not by `SparkSession.builder`, because all its output has to go to a file, from the
first line on. A user who wants a verdict should not see what a JVM prints. Java ends with our process in any case,
because it reads a pipe that we hold.

Most journals are small. So the settings make the session start quickly: starting and compiling take longer than the
rows.
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

# A journal with at least this many rows gains from exchanges, broadcasts and adaptive plans.
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
    """A running Spark, and the folder with all its temporary files."""

    spark: SparkSession
    folder: Path
    jvm: Jvm | None
    lock: int  # on the folder, as long as Spark runs
    connected: bool = False  # whether it is a remote Spark, used by Spark Connect

    @property
    def is_local(self) -> bool:
        """Whether its workers run on this machine."""
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
            with suppress(Exception):  # it may have ended already
                self.spark.stop()
            return
        gateway = self.spark.sparkContext._gateway
        try:
            with suppress(Exception):  # it may be dead already
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
    """What a session has beyond the default: more jars (to read from Kafka), other settings, another heap size."""

    jars: Sequence[Path] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    memory: str = MEMORY


def warm(master: str = "local[*]", large: bool = False, extras: Extras | None = None) -> Session:
    """Start Spark. This takes one to four seconds, so a caller may start it early, beside other work.

    `large` enables Java's second compiler, which pays off from millions of rows on.
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
    """A session of a running Spark, by Spark Connect. It gets those of `_settings` that a session may change."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        spark = SparkSession.builder.remote(address).getOrCreate()
        for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"):
            spark.conf.set(name, _settings(address, folder)[name])
        spark.addArtifacts(_our_code(folder), pyfile=True)
    except ImportError as error:
        how = "in the clone, .venv/bin/pip install -c constraints.txt -e '.[connect]' installs them"
        raise CannotHere(f"Spark Connect needs packages that are missing; {how}") from error
    except Exception as error:
        raise CannotHere(f"{address} does not answer:", [first_line(error)]) from error
    return spark


def cores(spark: SparkSession) -> int:
    """How many tasks run at once. A remote Spark and a dead one do not report it: then CORES_ELSEWHERE."""
    try:
        return spark.sparkContext.defaultParallelism
    except (PySparkException, Py4JError, OSError):
        return CORES_ELSEWHERE


def _silence() -> None:
    """Silence pyspark and py4j: they print errors that they also raise."""
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
                _require_loopback()
                jvm = start(settings, _java_options(folder, large), folder, log, extras.memory, extras.jars)
                gateway = _connect(jvm)
            else:
                settings["spark.driver.extraJavaOptions"] = " ".join(_java_options(folder, large))
                settings |= {"spark.jars": ",".join(map(str, extras.jars))} if extras.jars else {}
                conf.setAll(list(settings.items()))
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError, DidNotStart) as error:
            last_lines = (folder / "spark.log").read_text(errors="replace").splitlines()[-5:]
            raise CannotHere("Spark's Java did not start; is Java 17 or newer on the PATH?", last_lines) from error
    conf.setAll(list(settings.items()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the workers, instead of the first Python on the PATH
    try:
        spark = SparkSession(SparkContext(conf=conf, gateway=gateway))
        if not master.startswith("local"):
            spark.sparkContext.addPyFile(_our_code(folder))
        # If we are killed, Java's input ends, and Java deletes the folder.
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
        if master.startswith("spark://") and "stopped SparkContext" in why:  # Spark gives no better reason
            raise CannotHere(f"no Spark master answers at {master}: start it, or name another") from error
        raise CannotHere("Spark did not start:", [why]) from error


def _require_loopback() -> None:
    """Raise if loopback is down, as in a new network namespace. Java's own error about it is unclear."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.connect(("127.0.0.1", 9))  # finds a route, and sends nothing
    except OSError as error:
        raise CannotHere(
            f"Spark needs loopback, and 127.0.0.1 cannot be reached ({error.strerror}): run `ip link set lo up`"
        ) from error


def _connect(jvm: Jvm) -> Any:
    """Connect pyspark to our Java. pyspark reads port and secret from the environment."""
    variables = {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret}
    os.environ.update(variables)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in variables:
            del os.environ[name]
    return gateway


def _submitted(gateway: Any) -> Jvm:
    return Jvm(gateway.proc, 0, "")


def _java_options(folder: Path, large: bool) -> list[str]:
    options = [
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Djava.io.tmpdir={folder}",
        f"-XX:ErrorFile={folder}/died.log",
        "-XX:-UsePerfData",  # its file would stay after Java is killed
        "-XX:+UseSerialGC",  # it needs no further threads, which a small machine would feel
    ]
    # In a short run the second compiler costs more time than it saves.
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
        # The checks need some 500 generated classes. With the default of 100 Spark would compile them again and again.
        "spark.sql.codegen.cache.maxEntries": "4000",
        "spark.sql.codegen.useIdInClassName": "false",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",  # each cached table is read only about five times
        **{f"spark.executorEnv.{name}": value for name, value in SAFE_PATH.items()},  # for Python workers
    }
    if not master.startswith("local"):
        settings["spark.driver.memory"] = MEMORY
        # At INFO, workers log the settings of Kafka's client, with its secrets. A log4j2.properties of the workers
        # overrides this option. setLogLevel did not reach the workers, in spite of its documentation.
        settings["spark.executor.extraJavaOptions"] = "-Dlog4j2.level=WARN"
    else:
        # A local Spark: no other process may use it.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder),
            # Any user of this machine can connect to loopback, and Spark deserialises the Java objects that it
            # receives. Spark draws the secret itself and keeps it in memory; we need not know it.
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.saslFallback": "false",
        }
    return settings


def fit_to(spark: SparkSession, rows: int, small: bool) -> None:
    """Set the session up for a journal of this size. `small` means that each table is one partition.

    Tables of one partition need no exchange and no broadcast for joins and groups, and all checks together are one
    stage. For an ordinary run this saves most of the time, because stages cost more than rows.
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
    """The path of a zip with our code, for workers on other machines, which have only Python, Spark, numpy and pyarrow.

    A worker fetches the file with its first task, so it must stay as long as the session.
    """
    home = Path(__file__).parents[1]
    path = folder / "ackproof.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for file in sorted(home.rglob("*.py")):
            packed.write(file, Path("ackproof") / file.relative_to(home))
    return str(path)


def few_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: T.StructType) -> DataFrame:
    """A frame of our own rows, in one partition. The rows go through Arrow, so Spark holds and counts them itself.

    A frame that `createDataFrame` makes of a list stays in Python: each query starts a Python process to read it again.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return few_columns(spark, dict(zip(schema.names, columns, strict=True)), schema)


def few_columns(spark: SparkSession, columns: Mapping[str, Any], schema: T.StructType) -> DataFrame:
    """The same from columns."""
    arrow = to_arrow_schema(schema)
    arrays = [pa.array(columns[field.name], field.type) for field in arrow]
    table = pa.Table.from_arrays(arrays, schema=arrow)
    return spark.createDataFrame(table, schema).coalesce(1)


def collected(frame: DataFrame) -> list[Row]:
    """The rows of a small frame."""
    with without_socket_warnings():
        return frame.collect()


@contextmanager
def without_socket_warnings() -> Iterator[None]:
    """Ignore warnings about sockets that pyspark leaves to the collector. Do not use it beside other threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def first_line(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """An error in one line, without Spark's further lines. `hide` is applied before the text is cut, because half of a
    secret cannot be recognised."""
    text = ""
    with suppress(Exception):  # the text of an error comes from Java, which may have ended by now
        text = str(error.getMessage()) if isinstance(error, PySparkException) else str(error)
        cause = getattr(error, "java_exception", None)
        while cause is not None:
            text = str(cause.toString())
            cause = cause.getCause()
    lines = [line.strip() for line in hide(text).splitlines() if line.strip()]
    first = lines[0] if lines else "no more is known"
    return (first if hasattr(error, "java_exception") and lines else f"{type(error).__name__}: {first}")[:300]
