"""CONTRIBUTING.md is true: its code blocks add a scenario, a check and a fault to a copy each, and its tests pass.

The page says where each block belongs, in the words just before it:

    `PATH`:                             it is a new file
    at the end of `PATH`:               it is a function at the end of the file
    at the end of `NAME` in `PATH`:     it is an entry of a table
    above the line `LINE` in `PATH`:    it is a class or function above this line

Blocks of `sh` are run. The figures are the files and lines that a person writes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
PAGE = (TREE / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"(?:(?P<where>at\s+the\s+end\s+of|above\s+the\s+line)\s+(?:`(?P<what>[^`\n]+)`\s+in\s+)?)?"
    r"(?:`(?P<path>[\w/.-]+)`)?:\n\n```(?P<kind>\w+)\n(?P<text>.*?)```",
    re.S,
)
pytestmark = pytest.mark.timeout(600)  # the commands of the page start Python and Spark

NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "recorded", ".proofs", "runs")


@dataclass
class Copy:
    """A copy of the tree, with an environment in which Python imports ackproof from the copy."""

    folder: Path
    written: dict[str, int] = field(default_factory=dict)  # lines that a person wrote, by file

    def follow(self, section: str) -> None:
        for block in _blocks(section):
            if block["kind"] == "sh":
                for command in block["text"].splitlines():
                    self.run(command)
            elif block["where"]:
                self.insert(block["path"], block["where"], block["what"], block["text"])
            else:
                self.write(block["path"], block["text"])

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        assert not file.exists(), f"CONTRIBUTING.md has {path} as an example of a new file, but it exists"
        file.write_text(text, encoding="utf-8")
        self._count(path, text)

    def insert(self, path: str, where: str, what: str | None, text: str) -> None:
        file = self.folder / path
        halves = _halves(file.read_text(encoding="utf-8"), where, what)
        assert halves, f"{path} has no {what}"
        file.write_text(text.join(halves), encoding="utf-8")
        self._count(path, text)

    def _count(self, path: str, text: str) -> None:
        self.written[path] = self.written.get(path, 0) + len(text.splitlines())

    def run(self, command: str) -> None:
        done = subprocess.run(
            command.split(), cwd=self.folder, capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def _blocks(section: str) -> Iterator[dict[str, str]]:
    begun = PAGE.index(f"\n## Add {section}")
    end = PAGE.index("\n## ", begun + 1)
    found = [match.groupdict() for match in BLOCK.finditer(PAGE, begun, end)]
    assert len(found) == PAGE.count("```", begun, end) / 2, "CONTRIBUTING.md does not say where a block belongs"
    yield from found


def _halves(text: str, where: str, what: str | None) -> tuple[str, str] | None:
    """Return the text before and after a place, with the blank lines that belong around a class or a function."""
    if what is None:
        return f"{text}\n\n", ""
    if where.startswith("above"):
        before, line, after = text.partition(f"\n{what}\n")
        return (f"{before}\n", f"\n{line}{after}") if line else None
    table = re.search(rf"^{what}\b.*?(?=^[}})\]])", text, re.S | re.M)
    return (text[: table.end()], text[table.end() :]) if table else None


@pytest.fixture(scope="module")
def make_copy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Copy]:
    def make() -> Copy:
        folder = tmp_path_factory.mktemp("copy") / "tree"
        shutil.copytree(TREE, folder, ignore=NOT_COPIED)
        _set_up(folder)
        return Copy(folder)

    return make


def _set_up(folder: Path) -> None:
    """Make `.venv` as ./ackproof leaves it, with the installed packages of this one but ackproof from the copy."""
    environment = folder / ".venv"
    venv.create(environment, symlinks=True)
    packages = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.joinpath("copy.pth").write_text(f"{folder / 'src'}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    stamp = environment / "ackproof"
    stamp.mkdir()
    stamp.joinpath("at").write_text(f"{folder}\n", encoding="utf-8")
    stamp.joinpath("dev").touch()
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(folder / name, stamp / name)


@pytest.mark.parametrize(("section", "files"), [("a scenario", 1), ("a check", 3), ("a fault", 3)])
def test_the_page_is_followed_to_the_letter(
    section: str, files: int, make_copy: Callable[[], Copy], record_property: Callable[[str, object], None]
) -> None:
    copy = make_copy()
    copy.follow(section)
    figure = f"{section}: {len(copy.written)} file(s), {sum(copy.written.values())} lines"
    record_property("figure", figure)
    print(figure, copy.written)
    assert len(copy.written) == files
