"""The observer asks who is a member of the run's groups, and journals those that are none of ours."""

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


def strangers(folder: Path, node: str, groups: dict[str, list[str]], *more: Group) -> list[dict[str, Any]]:
    """What is journaled of groups by the recorded answers of a real broker, asked twice; and of these besides."""
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
            watching.stop()  # so that it asks once
            watching._follow_groups(3)
        for group in more:
            watching._note_strangers(7, group)
        for table in watching._tables.values():
            table.close(seal=False)
    paths = folder.glob("journal/nodes/*")
    return [row for path in paths for row in read_stream(path)[0].to_pylist()]


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((row["node"], row["event"], row["text"]) for row in rows)


def test_a_member_without_a_client_id_of_ours_is_journaled_once(tmp_path: Path) -> None:
    rows = strangers(tmp_path, "3.9.2-kafka3", {"g1": ["c1"]})
    assert told(rows) == [("c2", "joined", "is a member of the group g1, from 127.0.0.1")]


def test_a_member_of_a_group_of_the_new_protocol_is_seen_too(tmp_path: Path) -> None:
    rows = strangers(tmp_path, "4.3.1-kafka3", {"g2": []})
    assert {row["event"] for row in rows} == {"joined"}
    assert all(row["text"].startswith("is a member of the group g2, from ") for row in rows)


@pytest.mark.parametrize("groups", [{"g1": ["c1", "c2", "c3"]}, {"another": []}, {}])
def test_near_miss_members_of_ours_and_groups_that_are_not_of_the_run(
    tmp_path: Path, groups: dict[str, list[str]]
) -> None:
    assert strangers(tmp_path, "3.9.2-kafka3", groups) == []


def test_many_strangers_do_not_fill_the_journal(tmp_path: Path) -> None:
    crowd = tuple(Member(f"m{number}", f"c{number}", "/127.0.0.1", None) for number in range(1_000))
    rows = strangers(tmp_path, "3.9.2-kafka3", {"g1": ["c1", "c2"]}, Group("g1", "classic", "Stable", "range", crowd))
    assert len(rows) == observer.STRANGERS_MOST
