"""Progress: a page that a client writes and the run reads, even while the client is restarted."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from ackproof.clients.runtime import Progress


def _start_again_and_again(path: Path, times: int) -> None:
    for number in range(times):
        Progress(path, create=True).write(1, number, 0, 0, 0, 0)


def test_a_reader_sees_what_the_client_wrote(tmp_path: Path) -> None:
    writer = Progress(tmp_path / "page", create=True)
    reader = Progress(tmp_path / "page")
    writer.write(1, 5, 4, 1, 0, 0)
    written = {"ready": 1, "sent": 5, "acked": 4, "failed": 1, "unknown": 0, "done": 0}
    assert reader.read() == {**written, "owned": 0, "read_whole": 0}
    writer.write(1, 5, 0, 0, 0, 0, 3, 2)
    assert {name: reader.read()[name] for name in ("owned", "read_whole")} == {"owned": 3, "read_whole": 2}


def test_a_restarted_client_counts_from_zero(tmp_path: Path) -> None:
    Progress(tmp_path / "page", create=True).write(1, 5, 4, 1, 0, 0)
    reader = Progress(tmp_path / "page")
    Progress(tmp_path / "page", create=True)
    assert set(reader.read().values()) == {0}


def test_a_reader_survives_restarts_of_the_client(tmp_path: Path) -> None:
    Progress(tmp_path / "page", create=True)
    writer = multiprocessing.get_context("spawn").Process(target=_start_again_and_again, args=(tmp_path / "page", 3000))
    writer.start()
    reader = Progress(tmp_path / "page")
    while writer.is_alive():
        assert reader.read()["sent"] < 3000
    writer.join()
    assert writer.exitcode == 0
    assert reader.read()["sent"] == 2999
