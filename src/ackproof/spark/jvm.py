"""Starts the Java process in which Spark runs, as fast as possible.

`spark-submit` is a shell script. It starts a Java only to compute the command line of another Java, and puts 280 jars
on its class path. For a local master we write that command line ourselves, without the parts of Spark that a judge
never uses (Hive, Kubernetes, machine learning).
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import pyspark

from ackproof.host.namespaces import die_with_parent

START_DEADLINE_S = 60.0
END_DEADLINE_S = 5.0

# The jars of the parts of Spark that we do not use, by the beginning of their names.
# fmt: off
_UNUSED = (
    "JLargeArrays", "JTransforms", "ST4", "algebra", "antlr-runtime", "arpack", "avro-ipc", "avro-mapred", "bcprov",
    "blas", "breeze", "cats", "connect-repl", "datanucleus", "derby", "hive-beeline", "hive-cli",
    "hive-common", "hive-exec", "hive-jdbc", "hive-metastore", "hive-serde", "hive-service", "hive-shims", "HikariCP",
    "javolution", "jdo", "javax.jdo", "jline", "jpam", "jta", "kubernetes", "lapack",
    "libfb", "libthrift", "opencsv", "scala-compiler", "snakeyaml", "spark-connect",
    "spark-graphx", "spark-hive", "spark-kubernetes", "spark-mllib", "spark-repl", "spark-streaming", "spark-yarn",
    "spire", "super-csv", "transaction", "vertx", "zjsonpatch",
)
# The packages that Spark's own launcher opens on Java 17.
_OPENS = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# fmt: on


@dataclass(frozen=True)
class Jvm:
    """A running Java process with Spark's gateway on loopback."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str

    def close(self) -> None:
        """End Java: it ends by itself when its input ends, or it is killed."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class DidNotStart(Exception):
    """Java ended, or did not report its gateway in time."""


def start(
    settings: Mapping[str, str],
    options: list[str],
    folder: Path,
    log: IO[bytes],
    memory: str,
    jars: Sequence[Path] = (),
) -> Jvm:
    """Start Java with Spark's gateway, and wait until it reports its port. Its output goes to `log`."""
    answer = folder / "gateway"
    command = [
        _java(),
        f"-Xmx{memory}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        *options,
        "-cp",
        ":".join(map(str, [*_jars(), *jars])),
        "org.apache.spark.deploy.SparkSubmit",
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        "pyspark-shell",
    ]
    environment = {
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONNECT_MODE": "0",
    }
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=environment,
        preexec_fn=partial(_tie, os.getpid()),
    )
    deadline = time.monotonic() + START_DEADLINE_S
    try:
        while not answer.is_file():
            if process.poll() is not None or time.monotonic() > deadline:
                raise DidNotStart(f"java ended with {process.poll()}")
            time.sleep(0.02)
    except BaseException:
        process.kill()
        process.wait()
        raise
    report = answer.read_bytes()  # the port, the length of the secret, the secret
    port, length = struct.unpack(">ii", report[:8])
    return Jvm(process, port, report[8 : 8 + length].decode())


def _tie(parent: int) -> None:
    """In the child, before it becomes Java: ask the kernel to send SIGTERM when our process dies.

    Java then deletes Spark's folder. If it cannot, the janitor in `judge/worker.py` ends it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our process handles Ctrl-C
    die_with_parent(signal.SIGTERM, parent)


def _jars() -> list[Path]:
    folder = Path(pyspark.__file__).parent / "jars"
    return sorted(jar for jar in folder.glob("*.jar") if not jar.name.startswith(_UNUSED))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"
