"""Make or mend the virtual environment of a clone. Only the standard library: nothing is installed yet.

One at a time: the lock is inherited by pip, so it holds for as long as anything works on the environment. The stamp in
.venv/ackproof is taken away first and written last, so an environment with a stamp is whole, and one without is
completed by the next call. With ACKPROOF_DEV set, the packages for the tests are installed too.

Progress goes to stderr, one line per package; on a terminal, one line that changes. A failure is one sentence with the
way out, and exit code 4: the environment cannot.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "ackproof"
PINS = ("constraints.txt", "pyproject.toml")

LOCK_S_MAX = 1800.0
PIP_S_MAX = 1800.0
VENV_S_MAX = 300.0

NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
NOT_WRITABLE = re.compile(r"Read-only file system|Permission denied")
NETWORK = re.compile(
    r"NewConnectionError|Failed to establish a new connection|name resolution|Network is unreachable|Connection refused"
    r"|Connection ?reset|ConnectTimeout|ReadTimeout|timed out|ProxyError|SSLError|Max retries exceeded|ConnectionError"
)
STEP = re.compile(r"^\s*(Collecting|Downloading|Building wheel for|Installing build dependencies|Installing) ?(.*)$")


class Cannot(Exception):
    """A failure: one sentence that says what to do."""


def say(text: str) -> None:
    print(f"ackproof: {text}", file=sys.stderr, flush=True)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that pip is ended too
    try:
        lock()
        if not is_set_up():
            set_up()
    except KeyboardInterrupt:
        say("interrupted; the next call goes on from here.")
        return 130
    except Cannot as problem:
        say(str(problem))
        return 4
    except OSError as error:
        say(sentence_for(error))
        return 4
    return 0


def is_set_up() -> bool:
    """Return what the launcher asks. It is asked again under the lock, because another call may have done the work."""
    try:
        at = (STAMP / "at").read_text(encoding="utf-8").rstrip("\n")
        same = all((STAMP / name).read_bytes() == (ROOT / name).read_bytes() for name in PINS)
    except OSError:
        return False
    return same and at == str(ROOT) and (not wants_dev() or (STAMP / "dev").exists()) and python_version() is not None


def wants_dev() -> bool:
    return bool(os.environ.get("ACKPROOF_DEV"))


def lock() -> None:
    """Take the lock, which this process and its pip hold until they end. A second call waits and says so."""
    descriptor = os.open(ROOT / ".venv.lock", os.O_RDWR | os.O_CREAT, 0o644)
    os.set_inheritable(descriptor, True)
    deadline, told = time.monotonic() + LOCK_S_MAX, False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not told:
                say("another call is setting up; waiting for it.")
            told = True
        if time.monotonic() > deadline:
            raise Cannot(f"another call has been setting up for {LOCK_S_MAX:.0f} s: end it, then try again.")
        time.sleep(0.1)


def set_up() -> None:
    dev = wants_dev() or (STAMP / "dev").exists()
    pins = {
        name: (ROOT / name).read_bytes() for name in PINS
    }  # as they are now, even if they are edited during the installation
    shutil.rmtree(STAMP, ignore_errors=True)
    began = time.monotonic()
    if python_version() is None or not has_pip():
        say(f"setting up {VENV} (once; pyspark alone is 400 MB)")
        make_venv()
    else:
        say(f"bringing {VENV} up to date")
    install(".[dev]" if dev else ".")
    STAMP.mkdir()
    for name, content in pins.items():
        (STAMP / name).write_bytes(content)
    if dev:
        (STAMP / "dev").touch()
    unfinished = STAMP / "at.new"
    unfinished.write_text(f"{ROOT}\n", encoding="utf-8")
    unfinished.replace(STAMP / "at")  # the launcher looks for this one first
    say(f"set up in {time.monotonic() - began:.0f} s")


def python_version() -> tuple[int, int] | None:
    """Return the version of the environment's Python; None if it does not run, is too old, or was replaced."""
    python = VENV / "bin" / "python"
    question = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-I", "-c", question], capture_output=True, text=True, timeout=60, check=True)
        major, minor = (int(part) for part in answer.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    known = (VENV / "lib" / f"python{major}.{minor}" / "site-packages").is_dir()
    return (major, minor) if known and (major, minor) >= (3, 11) else None


def has_pip() -> bool:
    """Return whether the environment has pip and was made here: a moved one has the old path in its programs."""
    try:
        made_here = str(VENV / "bin") in (VENV / "bin" / "pip").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    command = [str(VENV / "bin" / "python"), "-I", "-m", "pip", "--version"]
    return made_here and subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def make_venv() -> None:
    if VENV.exists():
        shutil.rmtree(VENV)
    # By its real path: a link such as python3 may come to mean another version, whose packages are elsewhere.
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    command = [str(base), "-I", "-m", "venv", str(VENV)]
    answer = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=VENV_S_MAX, check=False
    )
    if answer.returncode != 0:
        raise failure("Python's venv", (answer.stdout + answer.stderr).splitlines())


def install(what: str) -> None:
    """Let pip install the project with the pinned versions. The environment pins the build tools too."""
    pins = str(ROOT / "constraints.txt")
    command = [str(VENV / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--retries", "3", "-c", pins, "-e", what]
    environment = {**os.environ, "PIP_CONSTRAINT": pins, "PIP_BUILD_CONSTRAINT": pins, "PYTHONUNBUFFERED": "1"}
    output: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,  # the lock
    ) as pip:
        try:
            for line in shown(lines(pip)):
                output.append(line)
        finally:
            if pip.poll() is None:
                pip.terminate()
    if pip.returncode != 0:
        raise failure("pip", output)


def lines(pip: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield pip's lines as they come, and an empty line for each second without one."""
    assert pip.stdout is not None
    deadline, rest = time.monotonic() + PIP_S_MAX, b""
    with selectors.DefaultSelector() as selector:
        selector.register(pip.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(1.0):
                yield ""
                continue
            chunk = os.read(pip.stdout.fileno(), 65536)
            if not chunk:
                pip.wait(60)
                return
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
    yield f"Connection timed out: pip was not done after {PIP_S_MAX:.0f} s"


def shown(said: Iterator[str]) -> Iterator[str]:
    """Pass pip's lines on and show the steps among them, with the seconds that a step has taken so far."""
    terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns - 1
    step, since = "starting", time.monotonic()
    for line in said:
        found = STEP.match(line)
        if found:
            step, since = f"{found.group(1)} {found.group(2).split(' (from')[0]}".strip()[:200], time.monotonic()
        if terminal:
            seconds = f" {time.monotonic() - since:.0f} s" if time.monotonic() - since > 1 else ""
            print(f"\r\033[K{step[: width - 8]}{seconds}", end="", file=sys.stderr, flush=True)
        elif found:
            print(f"  {step}", file=sys.stderr, flush=True)
        if line:
            yield line
    if terminal:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def failure(who: str, output: Sequence[str]) -> Cannot:
    text = "\n".join(output)
    if NO_SPACE.search(text):
        return Cannot(f"the disk that holds {ROOT} is full: free about 1.5 GB, then try again.")
    if NOT_WRITABLE.search(text):
        return Cannot(f"{ROOT} cannot be written: clone the project into a directory of your own.")
    if NETWORK.search(text):
        return Cannot(
            "the Python package index did not answer: connect to the network for the first call, then try again."
        )
    last = "".join(f"\n  {line}" for line in [line for line in output if line.strip()][-8:])
    return Cannot(f"{who} failed; what it said last tells why, and the next call tries again.{last}")


def sentence_for(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk that holds {ROOT} is full: free about 1.5 GB, then try again."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"{ROOT} cannot be written ({error.strerror}): clone the project into a directory of your own."
    return f"setting up {VENV} failed ({error}): remove that directory, then try again."


if __name__ == "__main__":
    sys.exit(main())
