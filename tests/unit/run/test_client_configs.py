"""The configuration of client processes: the client ids of a group, and whether a topic grows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario, TopicPlan, TransactionsPlan
from ackproof.model.steps import Resize
from ackproof.run.client_configs import ClientConfigs, Entrances
from ackproof.run.client_files import ClientFiles


def configs(
    tmp_path: Path, *consumers: ConsumerPlan, transactions: TransactionsPlan | None = None, **more: Any
) -> ClientConfigs:
    """Return a scenario with one producer and these consumers."""
    scenario = Scenario(
        name="one",
        section="X",
        title="",
        summary="",
        topics=[TopicPlan("orders")],
        producers=[ProducerPlan("orders", 10, transactions=transactions)],
        consumers=list(consumers),
        **more,
    )
    names = [SimpleNamespace(name=f"consumer{number}") for number in range(1, 1 + len(consumers))]
    producer = SimpleNamespace(name="producer1", id=0, topic=0)
    record: Any = SimpleNamespace(producers=[producer], consumers=names, run=1, topics=["orders"])
    return ClientConfigs(scenario, record, ClientFiles(tmp_path), "no-lab", Entrances({"dc1": "kafka1:9092"}, None, []))


def test_the_members_of_a_group_are_known_by_the_client_ids_that_we_give_them(tmp_path: Path) -> None:
    named = ConsumerPlan("orders", "b", settings={"client.id": "mine"})
    foreign = ConsumerPlan("orders", "c", command=["their-client"])
    ours = [ConsumerPlan("orders", "a"), ConsumerPlan("orders", "b"), named]
    known = {"a": ["consumer1"], "b": ["consumer2", "mine"]}
    assert configs(tmp_path, *ours).client_ids() == known
    with_foreign = configs(tmp_path, *ours, foreign, ConsumerPlan("orders", "c"))
    assert with_foreign.client_ids() == known, "a foreign client may have any id"
    transactional = configs(tmp_path, transactions=TransactionsPlan("orders"))
    assert transactional.client_ids() == {"producer1-input": ["producer1-input"]}
    assert configs(tmp_path).client_ids() == {}


@pytest.mark.parametrize("grows", [True, False])
def test_a_producer_is_told_whether_its_topic_will_grow(tmp_path: Path, grows: bool) -> None:
    resize = Resize(["orders/*"], to_partitions=2, at_s=1)
    made = configs(tmp_path, faults=[resize] * grows)
    assert made.producer(made._record.producers[0], life=1).grows is grows
