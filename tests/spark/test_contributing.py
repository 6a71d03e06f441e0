"""CONTRIBUTING.md is true: its code blocks add a scenario and a check to a copy of the tree, and its tests pass there.

The page says where each block belongs, in the words just before it. "`PATH`:" is a new file, and "at the end of `NAME`
in `PATH`:" is an entry of a table. Blocks of `sh` are run. The figures are the files and lines that a person writes.
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
    r"(?:at the end of `(?P<table>\w+)`\s+in\s+)?(?:`(?P<path>[\w/.-]+)`)?:\n\n```(?P<kind>\w+)\n(?P<text>.*?)```", re.S
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
            elif block["table"]:
                self.add_entry(block["path"], block["table"], block["text"])
            else:
                self.write(block["path"], block["text"])

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        assert not file.exists(), f"CONTRIBUTING.md has {path} as an example of a new file, but it exists"
        file.write_text(text, encoding="utf-8")
        self.written[path] = len(text.splitlines())

    def add_entry(self, path: str, table: str, entry: str) -> None:
        file = self.folder / path
        begun = re.compile(rf"(^{table}\b.*?)(^[}})\]])", re.S | re.M)
        text, made = begun.subn(lambda found: found[1] + entry + found[2], file.read_text(encoding="utf-8"), count=1)
        assert made == 1, f"{path} has no table {table}"
        file.write_text(text, encoding="utf-8")
        self.written[path] = len(entry.splitlines())

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


@pytest.mark.parametrize(("section", "files"), [("a scenario", 1), ("a check", 3)])
def test_the_page_is_followed_to_the_letter(
    section: str, files: int, make_copy: Callable[[], Copy], record_property: Callable[[str, object], None]
) -> None:
    copy = make_copy()
    copy.follow(section)
    figure = f"{section}: {len(copy.written)} file(s), {sum(copy.written.values())} lines"
    record_property("figure", figure)
    print(figure, copy.written)
    assert len(copy.written) == files
