"""Our Python processes never run a file from the user's working directory: each is started with a safe path."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ackproof
from ackproof.host.own_program import own_program
from ackproof.judge.worker import Judging
from ackproof.lab import launch
from ackproof.lab.directory import LabDirectory

Told = Callable[[str, object], None]
SOURCE = Path(ackproof.__file__).parent
PLANTED = ("json.py", "msgspec.py", "pyarrow.py", "pyspark/__init__.py", "ackproof/__init__.py", "usercustomize.py")
TRAP = "from pathlib import Path\nPath({!r}).touch()\nraise SystemExit('planted')\n"


def lists_with_python(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of lists that hold `sys.executable`: these are command lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple) and any("sys.executable" in ast.unparse(each) for each in node.elts):
            yield node.lineno


def test_every_python_of_ours_is_started_in_one_place() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        for line in lists_with_python(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {place.partition(":")[0] for place in found} == {"host/own_program.py"}


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return a working directory full of traps, and the file that a sprung trap makes."""
    folder, sprung = tmp_path / "planted", tmp_path / "sprung"
    for name in PLANTED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TRAP.format(str(sprung)))
    monkeypatch.chdir(folder)
    return folder, sprung


MODULES = (
    "ackproof.judge.worker", "ackproof.lab.server.supervisor", "ackproof.lab.server.fault_timer",
    "ackproof.lab.server.port_relay",
    "ackproof.clients.producer.main", "ackproof.clients.health_check",
)  # fmt: skip


@pytest.mark.proves("F3")
@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("module", MODULES)
def test_a_planted_module_is_not_imported(module: str, planted: tuple[Path, Path], record_property: Told) -> None:
    """Each program ends because its arguments are missing. By then it has made the imports at its top."""
    done = subprocess.run(own_program(module), capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    assert "planted" not in done.stdout + done.stderr
    assert not planted[1].exists()
    record_property("figure", f"{len(MODULES)} programs of ours beside {len(PLANTED)} planted modules: none imported")


def test_the_judge_starts_beside_planted_modules(planted: tuple[Path, Path]) -> None:
    judging = Judging()
    try:
        (verdict,) = judging.judge([planted[0]], lambda _: None, lambda *_: None)
        assert "run.json is missing" in verdict.sentence
    finally:
        judging.close()
    assert not planted[1].exists()


def test_the_supervisor_starts_in_the_given_directory_beside_planted_modules(
    planted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab starts it in `/`; this test starts it in the planted folder. It ends because its boot file is missing."""
    directory = LabDirectory(planted[0])
    directory.supervisor_log.parent.mkdir(parents=True)
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **how: start(argv, **{**how, "cwd": planted[0]}))
    launch._spawn_supervisor(directory, [])
    assert "boot.json" in directory.supervisor_log.read_text()
    assert not planted[1].exists()


def test_a_child_ignores_the_environment_where_its_parent_does(tmp_path: Path) -> None:
    """`./ackproof` is isolated: an empty entry in PYTHONPATH, which means the working directory, runs no file there."""
    (tmp_path / "json.py").write_text(TRAP.format(str(tmp_path / "sprung")))
    program = "import json, sys; from ackproof.host.own_program import own_program; print(json.dumps(own_program('x')))"
    python = own_program("x")[0]
    environment = {**os.environ, "PYTHONPATH": ":/nowhere"}
    done = subprocess.run(
        [python, "-I", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [python, "-I", "-m", "x"]
