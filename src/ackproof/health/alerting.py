"""The watch: asks the rules a few times a second, and says when an alert is raised and when it is cleared.

It stands outside of everything that can hang: Spark and the brokers are spoken to in threads of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from ackproof.health.rules import RULES, Finding, Rule, View

CLEAR_S = 2.0  # all must have been well for so long, lest an alert flutter


@dataclass
class Alarm:
    """One rule over time."""

    rule: Rule
    raised: bool = False
    _since: float | None = None  # the finding, or its absence, contradicts `raised` since then

    def look(self, finding: Finding | None, now: float) -> bool:
        """Whether `raised` has just changed."""
        if (finding is not None) == self.raised:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        if now - self._since < (CLEAR_S if self.raised else self.rule.for_s):
            return False
        self.raised, self._since = not self.raised, None
        return True


class Alert(msgspec.Struct, frozen=True):
    """What is journaled, shown and sent on: one line of JSON."""

    rule: str
    # raised, cleared; of the query: watching, armed, offset_fell, query_restarted, too_late; `rate` is never journaled
    event: str
    value: float | None
    text: str
    wakes: bool = False


@dataclass
class Watch:
    alarms: Sequence[Alarm] = field(default_factory=lambda: [Alarm(rule) for rule in RULES])

    def look(self, view: View, now: float) -> Iterator[Alert]:
        for alarm in self.alarms:
            rule, finding = alarm.rule, alarm.rule.look(view)
            if alarm.look(finding, now):
                if finding is not None:
                    yield Alert(rule.name, "raised", finding.value, f"{finding.text}: {rule.means}", rule.wakes)
                else:
                    yield Alert(rule.name, "cleared", None, "all is well again", rule.wakes)
