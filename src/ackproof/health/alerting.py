"""Alerts: apply the rules a few times a second, and say when an alert is raised and when it is cleared.

Nothing here can hang: other threads talk to Spark and to the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from ackproof.health.rules import RULES, Finding, Rule, Snapshot

CLEAR_S = 2.0  # an alert is cleared after this time without a finding, so that it does not flutter


@dataclass
class Alarm:
    """One rule over time: whether its alert is raised."""

    rule: Rule
    raised: bool = False
    _since: float | None = None  # since when the finding, or its absence, has contradicted `raised`

    def update(self, finding: Finding | None, now: float) -> bool:
        """Whether this finding, or its absence, changes `raised`."""
        if (finding is not None) == self.raised:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        if now - self._since < (CLEAR_S if self.raised else self.rule.for_s):
            return False
        self.raised, self._since = not self.raised, None
        return True


class Alert(msgspec.Struct, frozen=True):
    """An event of the health check, as it is journaled, shown and delivered: one line of JSON."""

    rule: str
    # Of a rule: raised, cleared. Of the check: watching, armed, offset_fell, query_restarted, too_late, rate.
    event: str
    value: float | None
    text: str
    wakes: bool = False


@dataclass
class Alerts:
    """The alerts of all rules."""

    alarms: Sequence[Alarm] = field(default_factory=lambda: [Alarm(rule) for rule in RULES])

    def update(self, snapshot: Snapshot, now: float) -> Iterator[Alert]:
        for alarm in self.alarms:
            rule, finding = alarm.rule, alarm.rule.question(snapshot)
            if alarm.update(finding, now):
                if finding is not None:
                    yield Alert(rule.name, "raised", finding.value, f"{finding.text}: {rule.means}", rule.wakes)
                else:
                    yield Alert(rule.name, "cleared", None, "all is well again", rule.wakes)
