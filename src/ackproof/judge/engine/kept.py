"""What a judge of a large journal has done so far, kept with the run, so that one who is interrupted can go on.

It is worth something only for the same files and the same code, which a signature says; else it is thrown away. Arrays
are kept as arrays: nothing that is read back can be a program.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ackproof.host.locked_folder import take_away_unlocked
from ackproof.judge.run_source import Source, cleared

NAME = ".judging"
WORKING = (".log-", ".verdict-", ".witnesses-")  # what folders are called that a judge works in
_SIGNATURE = "signature"
FILE_MOST = 32 * 2**20  # that of 32 parts with 64 partitions has 16 MB
TREES_MOST = 1_000  # in one file; one for each part of a chunk
KEPT_MOST = 512 * 2**20  # of all files together; more than that is folded again


@contextmanager
def kept_folder(source: Source) -> Iterator[Path | None]:
    """Where it is kept, emptied of what is of other files or other code; null where nothing can be written, or where
    another judge of the same run is at it."""
    if source.home is None:
        yield None
        return
    home = os.open(source.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(home, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed
        folder = source.home / NAME
        signature = _signature(source)
        if not _is_ours(folder, signature):
            cleared(folder).mkdir()
            (folder / _SIGNATURE).write_text(signature)
    except OSError:
        yield None
    else:
        yield folder
    finally:
        os.close(home)


def clear_left_behind(run: Path) -> None:
    """Away with the folders of judges that were killed."""
    for kind in WORKING:
        take_away_unlocked(kind, run)


def _is_ours(folder: Path, signature: str) -> bool:
    """We make no links: one that is there was planted, and might lead what we write elsewhere."""
    if any(path.is_symlink() for path in chain([folder], folder.rglob("*"))):
        return False
    if not (folder / _SIGNATURE).is_file():
        return False
    with (folder / _SIGNATURE).open("rb") as file:
        return file.read(len(signature) + 1) == signature.encode()


def _signature(source: Source) -> str:
    told = hashlib.sha256(repr(source.record).encode())
    for path in sorted(path for paths in source.files.values() for path in paths):
        about = path.stat()
        told.update(f"{path.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    for path in sorted(Path(__file__).parents[2].rglob("*.py")):
        told.update(path.read_bytes())
    return told.hexdigest()


Tree = dict[str, Any]  # of names to arrays, or to further trees


class Kept:
    """Trees of arrays, a list of them under each name."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._room = KEPT_MOST
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, name: str) -> list[Tree] | None:
        """What was kept under this name; null where there is nothing, nothing whole, or too much of it: then it is
        made again."""
        if self._folder is None or not (path := self._folder / f"{name}.npz").is_file():
            return None
        try:
            if (size := path.stat().st_size) > min(FILE_MOST, self._room) or not _is_as_we_write(path, size):
                return None
            self._room -= size
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                if (count := int(arrays["size"])) > TREES_MOST:
                    return None
                trees: list[Tree] = [{} for _ in range(count)]
                for key in arrays.files:
                    place, *names = key.split("/")
                    if names:
                        _put(trees[int(place)], names, arrays[key])
        except Exception:  # noqa: BLE001  whatever is wrong with a file, what it should hold is made again
            return None
        return trees

    def keep(self, name: str, trees: Sequence[Tree]) -> None:
        if self._folder is None:
            return
        arrays: dict[str, Any] = {
            f"{place}/{key}": array for place, tree in enumerate(trees) for key, array in _leaves(tree)
        }
        aside = self._folder / f".{name}.npz"
        with aside.open("wb") as file:
            np.savez(file, size=np.array(len(trees)), **arrays)
        aside.rename(self._folder / f"{name}.npz")


NOTHING_KEPT = Kept(None)


def _is_as_we_write(path: Path, size: int) -> bool:
    """Whether a file holds plain arrays, unpacked, each as long as it says, and none of them twice: what is read of it
    then takes no more memory than it takes on disk."""
    with zipfile.ZipFile(path) as file:
        entries = file.infolist()
        if sum(entry.file_size for entry in entries) > size:
            return False
        return all(entry.compress_type == zipfile.ZIP_STORED and _is_plain(file, entry) for entry in entries)


def _is_plain(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bool:
    with file.open(entry) as array:
        if np.lib.format.read_magic(array) != (1, 0):
            return False
        shape, _, kind = np.lib.format.read_array_header_1_0(array)
        return kind.kind in "biuf" and array.tell() + math.prod(shape) * kind.itemsize == entry.file_size


def _leaves(tree: Tree, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}/")
        else:
            yield f"{before}{name}", value


def _put(tree: Tree, names: Sequence[str], array: Any) -> None:
    *outer, last = names
    for name in outer:
        tree = tree.setdefault(name, {})
    tree[last] = array
