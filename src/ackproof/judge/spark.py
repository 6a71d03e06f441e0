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
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ackproof.errors import CannotHere

# From so many rows on a journal is worth exchanges, broadcasts and plans that adapt.
LARGE_ROWS = 5_000_000

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

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def close(self) -> None:
        context = self.spark.sparkContext
        gateway = context._gateway
        process = getattr(gateway, "proc", None)
        try:
            self.spark.stop()
            if gateway is not None:
                gateway.shutdown()
        finally:
            SparkContext._gateway = None
            SparkContext._jvm = None
            if process is not None:
                process.stdin.close()
                try:
                    process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def warm(master: str = "local[*]") -> Session:
    """Start Spark: about two seconds, which a caller may spend while something else is still going on."""
    if SparkContext._active_spark_context is not None:
        raise RuntimeError("this process already has a Spark session")
    for name in ("py4j", "pyspark"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    folder = Path(tempfile.mkdtemp(prefix="ackproof-judge-"))
    try:
        spark = _start(master, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Session(spark, folder)


def _start(master: str, folder: Path) -> SparkSession:
    (folder / "log4j2.properties").write_text(_QUIET)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(_settings(master, folder).items()))
    with (folder / "spark.log").open("wb") as log:
        try:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            said = (folder / "spark.log").read_text(errors="replace").splitlines()[-5:]
            raise CannotHere("Spark's Java did not start; is Java 17 or newer on the PATH?", said) from error
    context = SparkContext(conf=conf, gateway=gateway)
    return SparkSession(context)


def _settings(master: str, folder: Path) -> dict[str, str]:
    java = [
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Djava.io.tmpdir={folder}",
        "-XX:+UseSerialGC",  # no threads beside ours on a small machine
        "-XX:TieredStopAtLevel=1",  # short work: the second compiler would never earn its time back
        "-Xshare:auto",
    ]
    settings = {
        "spark.master": master,
        "spark.app.name": "ackproof judge",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.cleaner.referenceTracking": "false",
    }
    if master.startswith("local"):
        # Alone on this machine: nobody else has any business with it.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder),
            "spark.driver.memory": os.environ.get("ACKPROOF_JUDGE_MEMORY", "2g"),
        }
    return settings


def fit_to(spark: SparkSession, rows: int) -> bool:
    """Set the session up for a journal of this size; true where one partition holds each table.

    Tables of one partition are joined and grouped where they lie: no exchange, no broadcast, and all checks together
    are one stage. For a run of ordinary size that is most of the time saved, for the rows cost less than the stages.
    """
    small = rows < LARGE_ROWS
    cores = spark.sparkContext.defaultParallelism
    partitions = 1 if small else max(2, 2 * cores, min(4096, rows // 1_000_000))
    for name, value in {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.autoBroadcastJoinThreshold": "-1" if small else "10m",
        "spark.sql.adaptive.enabled": str(not small).lower(),
        "spark.sql.maxSinglePartitionBytes": "1t" if small else "128m",
    }.items():
        spark.conf.set(name, value)
    return small
