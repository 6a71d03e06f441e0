"""Checks of receivers that take each message once."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "duplicate_accepted": CheckKind(
        "message(s) that a receiver accepted more than once",
        "a message that a receiver accepted as new more than once",
        needs=("received",), applies_to=conditions.has_receivers, needs_full_scan=True, needs_consumers="whole",
        meaning="A consumer that recognises copies accepted the same message more than once.",
        advice="Store the identities of the messages in the same transaction as the result, and keep them long enough.",
    ),
    "wrongly_dropped": CheckKind(
        "message(s) that a receiver never accepted",
        "a message of the healed log that a receiver of its topic never accepted: it dropped the message each time "
        "(`dropped` says how often), or never read it. A message that stands in several partitions is one witness",
        needs=("received", "ends"), applies_to=conditions.has_receivers, needs_full_scan=True,
        needs_consumers="whole",
        meaning="A consumer that recognises copies dropped a message as a copy, or never got it, and so never "
        "processed it.",
        advice="Do not use the highest number seen as the only memory if messages can arrive out of order.",
    ),
    "receivers": CheckKind(
        "receiver(s) with unexpected copies or drops",
        "a measure: what each receiver accepted and dropped, and what that cost; counts receivers whose copies or "
        "drops are not what the scenario expects",
        default="forbidden", needs=("received", "costs", "ends"), counted_column="wrong",
        applies_to=conditions.has_receivers, needs_full_scan=True, needs_consumers="whole",
        meaning="The check measures what each way to recognise copies accepted, dropped and cost, and counts "
        "surprises.",
        advice="Choose the cheapest way that accepts no copy and drops no message under your faults.",
    ),
}  # fmt: skip
