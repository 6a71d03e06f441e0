"""Fetch jars with Ivy, which comes with pyspark.

Ivy is a Java program. It takes a list of modules, finds them where its settings say (its built-in public repository,
unless ACKPROOF_IVY_SETTINGS names a settings file, such as one for a company's mirror), and copies their jars into a
folder. It writes only to the folder of work and to its own cache: without these two, nothing is left of it.

Ivy reports problems only in its output, and tries each of a hundred modules before it gives up. This module turns the
output into one sentence. Every wait has a deadline: an Ivy that prints nothing for a minute is ended.
"""

from __future__ import annotations

import importlib.util
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ackproof.core.errors import CannotHere
from ackproof.host.java import Java
from ackproof.host.namespaces import die_with_parent

__all__ = ["Ivy", "Module", "Progress", "find_ivy"]

Progress = Callable[[int, int | None, str], None]
"""Called with the number of artifacts fetched, their total (None if not known yet), and what was just done."""

FETCH_S_MAX = 1200.0
QUIET_S_MAX = 60.0
CONNECT_MS_MAX = 15_000
READ_MS_MAX = 45_000

FOUND = re.compile(r"^\tfound ([^#\s]+)#([^;\s]+);(\S+) in ")
FETCHED = re.compile(r"^\t\[SUCCESSFUL \] [^#\s]+#[^;\s]+;(\S+)!(\S+)\.jar ")
NETWORK = re.compile(
    r"Host \S+ not found|Server access error|UnknownHost|ConnectException|NoRouteToHost|SocketException|SocketTimeout"
    r"|Connection (?:refused|reset|timed out)|Network is unreachable|SSLException|SSLHandshake|download failed",
    re.IGNORECASE,
)
NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
NOT_WRITABLE = re.compile(r"Read-only file system|Permission denied|AccessDenied")


@dataclass(frozen=True, order=True)
class Module:
    organisation: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.organisation}#{self.name};{self.version}"


def find_ivy() -> Path:
    """The jar of Ivy in pyspark. It does not import pyspark, which takes a while."""
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise CannotHere(
        "pyspark, which brings the Ivy that fetches Kafka, is incomplete: install it again (pip install pyspark)."
    )


@dataclass(frozen=True)
class Ivy:
    """How Ivy is run: with this Java, in this folder of work, with this cache, under the caller's lock.

    `lock` is the descriptor of the lock. Ivy inherits it, so the lock holds while Ivy lives, even if we are killed.
    """

    java: Java
    work: Path
    cache: Path
    lock: int

    def fetch(
        self,
        modules: Sequence[Module],
        *,
        locked: bool,
        what: str,
        progress: Progress,
        optional: frozenset[str] = frozenset(),
    ) -> Path:
        """Fetch the jars of these modules and, unless `locked`, of all that they need. Returns the folder of the jars.

        A module whose name is `optional` is left out if the repository does not have it: some releases were not
        published whole. `what`, such as "Kafka 3.9.2", begins the message of a failure.
        """
        code, output = _run(self._command(modules, locked), self.lock, len(modules) if locked else None, progress)
        jars = self.work / "jars"
        if code == 0 and jars.is_dir():
            return jars
        missing = [module for module in modules if f"module not found: {module}" in "\n".join(output)]
        if missing and optional.issuperset(module.name for module in missing) and not _unreachable(output):
            rest = [module for module in modules if module not in missing]
            return self.fetch(rest, locked=locked, what=what, progress=progress)
        raise _failure(what, missing, output)

    def _command(self, modules: Sequence[Module], locked: bool) -> list[str]:
        temporary = self.work / "tmp"
        temporary.mkdir(exist_ok=True)
        wanted, settings = self.work / "ivy.xml", self.work / "settings.xml"
        wanted.write_text(_ivy_xml(modules, locked), encoding="utf-8")
        settings.write_text(_settings_xml(locked), encoding="utf-8")
        own = os.environ.get("ACKPROOF_IVY_SETTINGS", "").strip()
        if own and not Path(own).is_file():
            raise CannotHere(f"ACKPROOF_IVY_SETTINGS={own} is no file: name an Ivy settings file, or unset it.")
        return [
            str(self.java.path),
            "-XX:TieredStopAtLevel=1",  # Ivy runs for seconds, so quick compilation beats good code
            "-XX:-UsePerfData",  # else the JVM leaves a file in /tmp
            f"-Djava.io.tmpdir={temporary}",
            f"-Divy.default.ivy.user.dir={self.cache}",
            "-jar",
            str(find_ivy()),
            *("-settings", own or str(settings)),
            *("-ivy", str(wanted)),
            *("-cache", str(self.cache)),
            *("-retrieve", f"{self.work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ]


def _run(command: list[str], lock: int, total: int | None, progress: Progress) -> tuple[int, list[str]]:
    output: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),
        preexec_fn=partial(die_with_parent, signal.SIGKILL, os.getpid()),
    ) as ivy:
        try:
            done = 0
            for line in _lines(ivy):
                output.append(line)
                if fetched := FETCHED.match(line):
                    done += 1
                    progress(done, total, f"fetched {fetched.group(2)} {fetched.group(1)}")
                elif found := FOUND.match(line):
                    progress(done, total, f"found {found.group(2)} {found.group(3)}")
        finally:
            ivy.kill()  # does nothing to a process that has ended
    return ivy.returncode, output


def _ivy_xml(modules: Sequence[Module], locked: bool) -> str:
    """The modules to fetch. Other logging backends are excluded, because they would conflict with ours."""
    lines = [
        f"    <dependency org={quoteattr(m.organisation)} name={quoteattr(m.name)} rev={quoteattr(m.version)}"
        f' transitive="{"false" if locked else "true"}" conf="default->default"/>'
        for m in modules
    ]
    return f"""<ivy-module version="2.0">
  <info organisation="ackproof" module="kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{chr(10).join(lines)}
    <exclude org="log4j" module="log4j"/>
    <exclude module="slf4j-log4j12"/>
    <exclude module="slf4j-simple"/>
    <exclude org="ch.qos.logback"/>
  </dependencies>
</ivy-module>
"""


def _settings_xml(locked: bool) -> str:
    """Settings for the public repository. A locked list needs no metadata, and we have its checksums."""
    metadata = 'usepoms="false" useMavenMetadata="false"' if locked else ""
    return f"""<ivysettings>
  <settings defaultResolver="public"/>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <property name="ivy.checksums" value="{"" if locked else "sha1"}"/>
  <timeout-constraints>
    <timeout-constraint name="short" connectionTimeout="{CONNECT_MS_MAX}" readTimeout="{READ_MS_MAX}"/>
  </timeout-constraints>
  <resolvers><ibiblio name="public" m2compatible="true" timeoutConstraint="short" {metadata}/></resolvers>
</ivysettings>
"""


def _lines(ivy: subprocess.Popen[bytes]) -> Iterator[str]:
    """The lines that Ivy prints, until it ends, prints nothing for a minute, or takes too long."""
    assert ivy.stdout is not None  # noqa: S101 - it was opened with a pipe
    deadline = time.monotonic() + FETCH_S_MAX
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(ivy.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(QUIET_S_MAX):
                yield "Connection timed out: Ivy said nothing for a minute"
                return
            chunk = os.read(ivy.stdout.fileno(), 65536)
            if not chunk:
                ivy.wait(QUIET_S_MAX)
                return
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
    yield f"Connection timed out: Ivy was not done after {FETCH_S_MAX:.0f} s"


def _unreachable(output: Sequence[str]) -> list[str]:
    return [line.strip() for line in output if NETWORK.search(line)][:5]


def _failure(what: str, missing: Sequence[Module], output: Sequence[str]) -> CannotHere:
    """Why Ivy failed and what to do, in one sentence. A missing module counts only if the network answered."""
    text = "\n".join(output)
    if NO_SPACE.search(text):
        why = "because the disk is full: free 200 MB, or set XDG_CACHE_HOME to another disk"
    elif NOT_WRITABLE.search(text):
        why = "because the cache cannot be written: set XDG_CACHE_HOME to a writable directory"
    elif evidence := _unreachable(output):
        why = (
            "because the public Maven repository did not answer: connect to the network for this first start, or name a"
            " mirror's Ivy settings file in ACKPROOF_IVY_SETTINGS"
        )
        return CannotHere(f"{what} could not be fetched, {why}.", evidence)
    elif missing:
        none = f"{missing[0].name} {missing[0].version}"
        return CannotHere(f"{what} cannot be fetched: the repository has no {none}; choose another version.")
    else:
        last = [line for line in output if line.strip()][-8:]
        return CannotHere(f"{what} could not be fetched, because Ivy failed: its last lines say why.", last)
    return CannotHere(f"{what} could not be fetched, {why}.")
