"""Find the Java that runs the cluster and the judge.

One Java runs both, so it must suit both: Kafka 4 needs Java 17 or newer, and Spark 4.0 brings a Hadoop that calls
`Subject.getSubject`, which throws since Java 23. JAVA_HOME is the user's choice and is never ignored: if it does not
fit, that is an error, which names a home that would. Without JAVA_HOME the `java` on the PATH is used, and if that is
missing or does not fit, one in the folders where packages install Java.

The `release` file of a home tells the version at once. Only if there is none, `java -version` is asked, which starts a
whole JVM.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ackproof.core.errors import CannotHere
from ackproof.host.limits import check_for_java

__all__ = ["MAJOR_MAX", "MAJOR_MIN", "Java", "find_java"]

MAJOR_MIN = 17
MAJOR_MAX = 22
NEED = f"Spark 4.0 and Kafka need Java {MAJOR_MIN} to {MAJOR_MAX}"
ASK_S_MAX = 20.0

PLACES = (Path("/usr/lib/jvm"), Path("/usr/java"), Path("/opt/java"), Path("/opt"), Path("~/.sdkman/candidates/java"))
VERSION = re.compile(r'(?:JAVA_VERSION=|version )"([0-9][^"]*)"')


@dataclass(frozen=True)
class Java:
    home: Path
    path: Path
    """The program `java` itself."""
    version: int
    """The major version: 17."""
    text: str
    """The whole version: 17.0.15."""

    @property
    def usable(self) -> bool:
        return MAJOR_MIN <= self.version <= MAJOR_MAX


def find_java() -> Java:
    """The Java to start everything with, or CannotHere with what to install."""
    check_for_java()
    home = os.environ.get("JAVA_HOME", "").strip()
    if home:
        return _from_java_home(Path(home))
    on_path = _on_path()
    if on_path is not None and on_path.usable:
        return on_path
    elsewhere = _elsewhere()
    if elsewhere is not None:
        return elsewhere
    if on_path is not None:
        raise CannotHere(f"{NEED}, but {on_path.path} is Java {on_path.text}: {_way_out(None)}.")
    raise CannotHere(f"No Java was found, and {NEED}: {_way_out(None)}.")


def _from_java_home(home: Path) -> Java:
    java = _at(home)
    if java is not None and java.usable:
        return java
    what = f"is Java {java.text}" if java is not None else "holds no Java that works (no bin/java)"
    other = _on_path()
    if other is None or not other.usable:
        other = _elsewhere()
    raise CannotHere(f"JAVA_HOME={home} {what}, but {NEED}: {_way_out(other)}.")


def _way_out(other: Java | None) -> str:
    if other is not None:
        return f"set JAVA_HOME={other.home} (Java {other.text})"
    return "install one (on Debian or Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME to one"


def _on_path() -> Java | None:
    """The first `java` on the PATH that answers. The first one can be a version manager's shim that fails."""
    for folder in os.get_exec_path():
        program = shutil.which("java", path=folder) if folder else None
        if program is None:
            continue
        real = Path(program).resolve()
        java = _at(real.parent.parent) or _asked(Path(program))
        if java is not None:
            return java
    return None


def _elsewhere() -> Java | None:
    """The newest usable Java in the usual folders."""
    found = [java for home in _homes() if (java := _at(home)) is not None and java.usable]
    return max(found, key=lambda java: (java.version, java.text), default=None)


def _homes() -> Iterator[Path]:
    for place in PLACES:
        try:
            yield from sorted(place.expanduser().iterdir())
        except (OSError, RuntimeError):  # not there, not readable, or no home directory
            continue


def _at(home: Path) -> Java | None:
    """The Java in this home, or None if none there works."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _asked(program)
    return _java(home, program, text) or _asked(program)


def _asked(program: Path) -> Java | None:
    """The version and the home that the program itself reports."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ASK_S_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    return _java(Path(home.group(1).strip()) if home else program.resolve().parent.parent, program, answer.stderr)


def _java(home: Path, program: Path, text: str) -> Java | None:
    found = VERSION.search(text)
    if found is None:
        return None
    version = found.group(1)
    major = re.match(r"(?:1\.)?(\d+)", version)  # Java 8 called itself 1.8
    return Java(home=home, path=program, version=int(major.group(1)), text=version) if major else None
