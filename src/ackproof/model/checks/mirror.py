"""Checks of a second cluster and its mirror."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "mirror_differs": CheckKind(
        "difference(s) between a topic and its mirror",
        "a message that the mirror of a topic lacks, has more often, holds otherwise (`changed`: another key, "
        "value, header or timestamp), or holds before an earlier one. Each partition is compared by message, not by "
        "offset",
        default="forbidden", needs=("mirror_ends",), applies_to=conditions.has_mirrors, needs_fates=True,
        needs_full_scan=True,
        meaning="A topic and its copy in the second cluster do not hold the same messages.",
        advice="Wait until the mirror has caught up before you compare; copies after a restart of the mirror are "
        "normal.",
    ),
    "mirror_layout": CheckKind(
        "partition(s) with a mirror",
        "a measure: each partition that holds records, with the name of its mirror, both counts, and by how much "
        "the offsets of our messages differ",
        needs=("mirror_ends",), applies_to=conditions.has_mirrors,
        meaning="The check shows each partition beside its mirror: how many messages both hold, and how their offsets"
        " differ.",
        advice="Nothing is wrong; do not use offsets of one cluster in the other without translating them.",
    ),
    "offset_translation": CheckKind(
        "translated offset(s) that would make a group miss records",
        "a measure: the offset at which a group would continue at a mirror, beside its offset in the original "
        "topic. `again` counts the records that the group has processed here and would be given again there; "
        "`missed` counts those that it has not processed here and would not be given there; only records that both "
        "topics hold count. A row counts if records would be missed. Once the group reads at the mirror it commits "
        "there by itself, and its offsets are left out",
        default="forbidden", needs=("translated", "mirror_ends"), counted_column="ahead",
        applies_to=conditions.has_mirrors, needs_full_scan=True,
        meaning="After a move to the second cluster, a group would start past messages that it has not processed.",
        advice="Translate the offsets again, and start a little earlier: reading twice is better than missing "
        "messages.",
    ),
    "unreplicated": CheckKind(
        "acknowledged message(s) missing from the mirror when the producers moved",
        "a message acknowledged at one site that the mirror did not hold when producers were first acknowledged at "
        "the other site",
        needs=("mirror_ends", "state"), applies_to=conditions.has_runbook, needs_full_scan=True, depends_on_time=True,
        meaning="A message was acknowledged in one cluster, and the other did not have it when the writers moved "
        "there.",
        advice="Stop the writers first, and wait until the mirror has caught up, if you can choose the moment.",
    ),
    "unexplained": CheckKind(
        "message(s) missing from the mirror that its lag does not explain",
        "a witness of `unreplicated` that the mirror's lag does not explain: the mirror had already copied a later "
        "offset of the partition",
        default="forbidden", needs=("mirror_ends", "state"), applies_to=conditions.has_runbook, needs_full_scan=True,
        depends_on_time=True,
        meaning="A message is missing in the second cluster although the mirror had already copied later ones.",
        advice="Look at the log of MirrorMaker: the lag of the mirror does not explain this loss.",
    ),
    "site_gap": CheckKind(
        "move(s) of clients to another site",
        "a measure: each move of the producers, or of a group, to another site: the time from the last "
        "acknowledgement or read at one site to the first at the other, and how many records were read again",
        needs=("sends",), applies_to=conditions.has_runbook, needs_full_scan=True,
        meaning="The check measures how long no client wrote or read while the clients moved to the other cluster.",
        advice="Nothing is wrong; use it to decide whether the runbook is fast enough.",
    ),
}  # fmt: skip
