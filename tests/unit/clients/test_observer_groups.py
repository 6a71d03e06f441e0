"""The observer asks for the members of the run's groups, and writes down those from outside the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof.clients import observer
from ackproof.clients.observer import Observer, ObserverConfig
from ackproof.journal.stream import read_stream
from ackproof.kafka.protocol.responses import Group, Member
from tests.support import peers

pytestmark = pytest.mark.proves("C7")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer may take longer than the observer waits for it."""
    monkeypatch.setattr(observer, "TIMEOUT_S", 30.0)


def strangers(folder: Path, node: str, groups: dict[str, list[str]], *more: Group) -> list[dict[str, Any]]:
    """The rows for the groups in a real broker's recorded answers, asked twice, and for the groups in `more`."""
    with peers.serving(peers.replaying(node)) as port:
        config = ObserverConfig(
            1,
            str(folder),
            "observer",
            {3: ("127.0.0.1", port)},
            {3: "kafka3"},
            {},
            {},
            [],
            str(folder / "page"),
            groups,
        )
        watching = Observer(config)
        for _ in range(2):
            watching.stop()  # so that it asks only once
            watching._follow_groups(3)
        for group in more:
            watching._note_strangers(7, group)
        for table in watching._tables.values():
            table.close(seal=False)
    paths = folder.glob("journal/nodes/*")
    return [row for path in paths for row in read_stream(path)[0].to_pylist()]


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((row["node"], row["event"], row["text"]) for row in rows)


def test_a_member_with_another_client_id_gets_one_row(tmp_path: Path) -> None:
    rows = strangers(tmp_path, "3.9.2-kafka3", {"g1": ["c1"]})
    assert told(rows) == [("c2", "joined", "is a member of the group g1, from 127.0.0.1")]


def test_a_member_of_a_group_with_the_new_protocol_gets_a_row_too(tmp_path: Path) -> None:
    rows = strangers(tmp_path, "4.3.1-kafka3", {"g2": []})
    assert {row["event"] for row in rows} == {"joined"}
    assert all(row["text"].startswith("is a member of the group g2, from ") for row in rows)


@pytest.mark.parametrize("groups", [{"g1": ["c1", "c2", "c3"]}, {"another": []}, {}])
def test_near_miss_the_runs_own_members_and_other_groups(tmp_path: Path, groups: dict[str, list[str]]) -> None:
    assert strangers(tmp_path, "3.9.2-kafka3", groups) == []


def test_many_strangers_do_not_fill_the_journal(tmp_path: Path) -> None:
    crowd = tuple(Member(f"m{number}", f"c{number}", "/127.0.0.1", None) for number in range(1_000))
    rows = strangers(tmp_path, "3.9.2-kafka3", {"g1": ["c1", "c2"]}, Group("g1", "classic", "Stable", "range", crowd))
    assert len(rows) == observer.STRANGERS_MOST
