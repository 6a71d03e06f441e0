"""Checks of consumer groups: owners, rebalances, commits and members."""

from __future__ import annotations

from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "partition_shares": CheckKind(
        "member(s) of a group with an unexpected number of readers",
        "a measure: how many records each member of a group read, and from how many partitions; counts the members of "
        "a group if the number of its members that read is not the scenario's `readers`",
        needs=("reads",), counted_column="wrong", needs_consumers="whole",
        meaning="The check measures how the members of a group shared the messages, and counts members that do not "
        "read as expected.",
        advice="Give the topic at least as many partitions as the group has members.",
    ),
    "rebalances": CheckKind(
        "group(s) that rebalanced",
        "a measure: how often each group rebalanced during the load (its initial assignment is not counted), and "
        "for how many partition-seconds its partitions had no owner; counts groups that rebalanced",
        needs=("groups",), counted_column="disturbed", depends_on_time=True, needs_consumers="owned",
        consumers_lack="when exactly it owned a partition",
        meaning="The partitions of a group were assigned anew while messages were sent.",
        advice="Use static membership and the cooperative assignor, and raise the session timeout if members only "
        "restart.",
    ),
    "dual_ownership": CheckKind(
        "period(s) in which a partition had two owners",
        "a period in which two consumers of a group both believed that they owned a partition",
        needs=("groups",), needs_consumers="owned", consumers_lack="when exactly it owned a partition",
        meaning="Two consumers of a group believed at the same time that they owned one partition.",
        advice="Stop work on a partition when it is revoked or lost, and let the processing recognise copies.",
    ),
    "ownership_gap": CheckKind(
        "period(s) in which a partition had no owner",
        "a period in which no consumer of a group owned a partition of its topic",
        needs=("groups",), depends_on_time=True, needs_consumers="owned",
        consumers_lack="when exactly it owned a partition",
        meaning="For a while no consumer of the group owned a partition, so none read it.",
        advice="Use the cooperative assignor, and a session timeout that suits how fast you need a replacement.",
    ),
    "commit_regression": CheckKind(
        "commit(s) of an offset below an earlier commit",
        "an accepted commit below an earlier one of the same group and partition",
        needs=("commits",), needs_consumers="owned", consumers_lack="when exactly it committed",
        meaning="A group committed an offset below one that it had committed before, so it will read messages again.",
        advice="Commit only for partitions that the consumer owns, and in the order of processing.",
    ),
    "membership_gap": CheckKind(
        "period(s) in which a broker was not listed as a member",
        "a period in which ZooKeeper, or a broker, did not list a member of the cluster that it had listed before",
        needs=("members",), depends_on_time=True,
        meaning="For a while ZooKeeper, or another broker, did not list a broker as a member of the cluster.",
        advice="Compare the time with pauses and network faults, and with the session timeout of the brokers.",
    ),
}  # fmt: skip
