"""Checks of where replicas, logs and keys are placed."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "allocation": CheckKind(
        "replica placement(s) that the documented rule does not explain",
        "a measure: the replicas of each partition, and beside them the result of Kafka's documented rule with the "
        "start and the shift that the judge inferred; counts what the rule does not explain (with ZooKeeper the "
        "exact sequence, with KRaft only the rule's properties). Partitions that were added to a topic are left "
        "out, because Kafka places them anew",
        needs=("state",), counted_column="wrong",
        meaning="The replicas of a new topic stand on other brokers than Kafka's documented rule explains.",
        advice="Check the racks of the brokers, and whether replicas were moved.",
    ),
    "log_dir_placement": CheckKind(
        "placement(s) of logs in directories that did not hold the fewest",
        "a measure: each time that a broker got new logs, how many its directories held before and after, and "
        "beside it the result of the documented rule (each log goes to the directory with the fewest); counts where "
        "they differ",
        needs=("places",), counted_column="wrong",
        meaning="A broker put a new replica into another log directory than the one that held the fewest.",
        advice="Check whether a log directory is offline, and move replicas with kafka-reassign-partitions if one is "
        "too full.",
    ),
    "key_moved": CheckKind(
        "move(s) of a key to another partition",
        "a move of a key from one partition to another, with the last message before it and the first after it",
        needs=("sends",), applies_to=conditions.has_keys, needs_full_scan=True,
        meaning="Messages with one key went to two different partitions, usually because the topic was given more "
        "partitions.",
        advice="Decide on the number of partitions in advance, or write to a new topic when the number has to grow.",
    ),
}  # fmt: skip
