"""Users, rules and transactions of a scenario: every mistake has its place and its sentence."""

from __future__ import annotations

import pytest

from ackproof.core.errors import UsageProblem
from ackproof.model.scenario import RulePlan
from ackproof.run.acls import arguments, distinct
from ackproof.scenario.load import load
from ackproof.scenario.source import find, read_source

ACCESS, TRANSACTIONS = (find(name).text for name in ("access", "transactions"))


def problem_of(text: str) -> str:
    with pytest.raises(UsageProblem) as caught:
        load(read_source("bad.toml", text))
    return "\n".join([caught.value.message, *caught.value.details])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('group = "readers"\nuser = "mallory"', 'group = "readers"', "every client must be one: users are alice"),
        ('user = "alice"\nacks', 'user = "alyce"\nacks', "no user 'alyce'"),
        ('user = "alice"\noperations = ["All"]', 'user = "bob"\noperations = ["All"]', "no user 'bob'"),
        ("from_host = 2\ndeny", "from_host = 3\ndeny", "from_host = 3: from 1 to 2, the highest of any client"),
        ("from_host = 2\nacks", "from_host = 0\nacks", "from_host = 0: from 1 to 9"),
        ('topic = "orders"\nfrom_host = 2\ndeny', "from_host = 2\ndeny", "about a topic or about a group"),
        ('topic = "orders"\nfrom_host = 2\ndeny', 'topic = "order"\nfrom_host = 2\ndeny', "no topic 'order'"),
        ('topic_check = "assume"', 'topic_check = "create"', "a producer with a user validates or assumes its topic"),
        ('operations = ["All"]', "operations = []", "a rule needs at least one operation"),
        ('users = ["alice", "mallory"]', 'users = ["alice", "mallory", "a b"]', "user 'a b': letters"),
        ('users = ["alice", "mallory"]', 'users = ["alice", "mallory", "alice"]', "and each once"),
    ],
)
def test_what_is_wrong_with_access(old: str, new: str, told: str) -> None:
    assert ACCESS.count(old) == 1
    assert told in problem_of(ACCESS.replace(old, new))


def test_users_and_refusals_are_for_a_cluster_that_asks() -> None:
    plain = "".join(part for part in ACCESS.partition("[[topics]]")[1:])
    text = 'name = "x"\nsection = "X"\ntitle = "X"\nsummary = "X"\n' + plain
    assert "there are users only with [cluster.access]" in problem_of(text)
    assert "without [cluster.access] no client is refused" in problem_of(text)


def test_a_rule_is_told_to_kafka_acls_with_the_address_of_the_client() -> None:
    refuse = RulePlan("alice", ["All"], topic="orders", from_host=2, deny=True)
    assert " ".join(arguments(refuse)) == (
        "--add --deny-principal User:alice --deny-host 198.18.3.2 --operation All --topic orders"
    )
    allow = RulePlan("bob", ["Read", "Describe"], group="readers")
    assert " ".join(arguments(allow)) == (
        "--add --allow-principal User:bob --allow-host * --operation Read --operation Describe --group readers"
    )


KILL = '[[faults]]\nkind = "kill"\ntargets = ["producer:2"]\nat_s = 24\n\n'


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('input = "payments"', 'input = "payment"', "input = 'payment': a topic that it reads, one of payments"),
        ('input = "payments"', 'input = "settlements"', "a topic that it reads, one of payments"),
        ('input = "payments"', 'input = "dc2:payments"', "a transaction is one cluster's"),
        ("rate = 200\n", "rate = 200\ncopies = 2\n", "one producer must write to it"),
        ("count = 8_000\ntransactions", "count = 4_000\ntransactions", "count = 4000: as many as its input has, 8000"),
        ("transactions = {", "threads = 2\ntransactions = {", "threads: leave it out"),
        ("transactions = {", "partition = 1\ntransactions = {", "partition: leave it out"),
        (
            "[expect]\n",
            f"{KILL}[expect]\n",
            'producer:2: its last transaction stays unfinished; set not_exactly_once = "allowed"',
        ),
        ("size = 50", "size = 0", "size = 0: from 1 to 10000 messages"),
        ("abort_every = 4", "abort_every = 1", "or nothing is ever committed"),
        ("timeout_s = 10", "timeout_s = 0.5", "timeout_s = 0.5: from 1 to 900"),
        ("transactions = {", "rate = 5\ntransactions = {", "rate: leave it out"),
        ("transactions = {", "keys = 5\ntransactions = {", "keys: leave it out"),
        ("transaction:producer2", "transaction:producer1", "with transactions are transaction:producer2"),
        (
            'isolation = "read_uncommitted"',
            'settings = { "isolation.level" = "read_uncommitted" }',
            "isolation.level: use isolation =",
        ),
    ],
)
def test_what_is_wrong_with_transactions(old: str, new: str, told: str) -> None:
    assert TRANSACTIONS.count(old) == 1
    assert told in problem_of(TRANSACTIONS.replace(old, new))


def test_the_input_of_transactions_is_not_written_by_others() -> None:
    chained = TRANSACTIONS.replace(
        "count = 8_000\nrate = 200\n", 'count = 8_000\ntransactions = { input = "settlements" }\n'
    )
    assert "input = 'payments': it is written in transactions itself" in problem_of(chained)


def test_a_transactional_producer_may_be_killed_where_that_may_cost_something() -> None:
    text = TRANSACTIONS.replace("[expect]\n", f"{KILL}[expect]\n").replace(
        'not_exactly_once = "forbidden"', 'not_exactly_once = "allowed"'
    )
    load(read_source("good.toml", text))


def test_rules_that_say_the_same_are_one() -> None:
    read = RulePlan("alice", ["Read", "Read", "Describe"], topic="orders")
    again = RulePlan("alice", ["Read"], topic="orders")
    others = [
        RulePlan("alice", ["Read"], group="orders"),
        RulePlan("alice", ["Read"], topic="orders", from_host=2),
        RulePlan("alice", ["Read"], topic="orders", deny=True),
        RulePlan("bob", ["Read"], topic="orders"),
    ]
    assert distinct([read, again]) == 2
    assert distinct([read, again, *others]) == 6
