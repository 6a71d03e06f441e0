"""Java, which Spark needs anyway, reads the same in files of settings as we do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException

from ackproof.core.java_properties import read_properties
from tests.support.asking import spark

WORDS = st.sampled_from([*"ab =:#!\t\f\r\n\\", "\\\n", "\\\r\n", "\\u00e4", "\\u1", "\\t", "\u00e4"])


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(WORDS, max_size=20).map("".join))
def test_java_reads_the_same_settings(text: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(text.encode("latin-1"))
    assert ours(path) == by_java(path)


def ours(path: Path) -> dict[str, str] | None:
    try:
        return {name: value or "" for _, name, value in read_properties(path) if name}
    except ValueError:
        return None


def by_java(path: Path) -> dict[str, str] | None:
    java: Any = spark().sparkContext._jvm
    told, stream = java.java.util.Properties(), java.java.io.FileInputStream(str(path))
    try:
        told.load(stream)
    except IllegalArgumentException:
        return None
    finally:
        stream.close()
    return {name: str(told.getProperty(name)) for name in map(str, told.stringPropertyNames()) if name}
