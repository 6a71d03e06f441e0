"""Checks of transactions: whole or not at all, exactly once, never left open."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "torn_transaction": CheckKind(
        "transaction(s) that the healed log holds only in part",
        "a transaction, committed or not, of which the healed log holds some messages and not others",
        default="forbidden", needs=("transactions", "ends"), applies_to=conditions.has_transactions, needs_fates=True,
        needs_full_scan=True,
        meaning="The log holds some messages of a transaction, and not the others.",
        advice="Treat it as a bug or as an unclean leader election: a transaction must be visible whole or not at all.",
    ),
    "hanging_transaction": CheckKind(
        "period(s) in which an open transaction blocked readers past its timeout",
        "a period in which the last stable offset of a partition stood still below the high watermark for longer "
        "than the longest transaction timeout plus ten seconds",
        default="forbidden", needs=("transactions", "stable"), applies_to=conditions.has_transactions,
        needs_full_scan=True, depends_on_time=True,
        meaning="A transaction stayed open beyond its timeout, and consumers with read_committed could not read past "
        "it.",
        advice="Find it with kafka-transactions, and abort it; then look for the producer that left it.",
    ),
    "not_exactly_once": CheckKind(
        "input message(s) that were not processed exactly once",
        "a message of a transactional producer's input that has more or fewer answers in the healed log than it has "
        "copies in the input",
        default="forbidden", needs=("transactions", "ends"), applies_to=conditions.has_transactions,
        needs_full_scan=True,
        meaning="A transactional application wrote no answer to an input message, or more than one.",
        advice="Send the offsets inside the transaction, and process the input with one producer per transactional id.",
    ),
}  # fmt: skip
