"""The facts about one run from which the judge decides whether the run is evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ackproof.judge.run_source import Source
from ackproof.judge.sequence_audit import Producer


@dataclass(frozen=True)
class Evidence:
    source: Source
    producers: Sequence[Producer]
    fates: Mapping[str, int]
    identity: Mapping[str, int]
    irregular: Mapping[str, int]  # holes, unclosed, twice, unreserved

    def total(self, name: str) -> int:
        """The sum of one count over all producers."""
        return sum(getattr(producer, name) for producer in self.producers)

    def topic_name(self, topic: int) -> str:
        names = self.source.record.topics
        return names[topic] if 0 <= topic < len(names) else f"topic {topic}"
