"""A scenario file is read and checked as a whole, and every problem has its line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.core.errors import UsageProblem
from ackproof.model.fault import LastingFault
from ackproof.model.faults import Cut, Fault, Pause, Start
from ackproof.model.scenario import Scenario
from ackproof.model.steps import CaughtUp, Elect, Seek, Translated
from ackproof.scenario.json_schema import json_schema
from ackproof.scenario.load import load
from ackproof.scenario.overrides import merged
from ackproof.scenario.source import Source, bundled, find, line_numbers, read_source
from ackproof.scenario.validate.client_settings import refused
from tests.support.scenarios import GOOD, READS, changed, problems_of

CLAIMS = """
[[claims]]
at = "end"
partitions = "orders/0"
"""


def with_fault(kind: str, *lines: str) -> str:
    return "\n".join(["", "[[faults]]", f'kind = "{kind}"', *lines, "at_s = 1", ""])


def good(shape: str = "base", *settings: str) -> Scenario:
    return load(read_source("good.toml", GOOD), shape, settings)


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_scenario_is_valid_in_every_shape(name: str) -> None:
    source = find(name)
    assert [load(source, shape).name for shape in source.shapes] == [name] * len(source.shapes)


def test_the_seven_leader_failures_come_in_three_shapes() -> None:
    section_a = [name for name in bundled() if load(find(name)).section == "A"]
    assert len(section_a) == 7
    assert all(find(name).shapes == ["base", "slow", "crowd"] for name in section_a)


def test_a_shape_changes_only_what_it_names() -> None:
    slow = good("slow")
    assert (slow.producers[0].count, slow.producers[0].topic) == (10, "orders")
    assert slow.faults[0].kind == "isolate"


def test_a_new_end_takes_the_place_of_one_written_the_other_way() -> None:
    fault = good("slow").faults[0]
    assert isinstance(fault, LastingFault)
    assert (fault.at_s, fault.at_messages, fault.until_s, fault.until) == (2, None, 5, None)


def test_lists_of_tables_merge_place_by_place_and_grow() -> None:
    assert merged({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"y": 3}]}) == {"a": [{"x": 1, "y": 3}, {"x": 2}]}
    assert merged({"a": [{"x": 1}]}, {"a": [{}, {"x": 2}]}) == {"a": [{"x": 1}, {"x": 2}]}


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("producer.acks=1", lambda s: s.producers[0].acks == "1"),
        ("producers.0.rate=50", lambda s: s.producers[0].rate == 50),
        ("producer.settings.linger.ms=5", lambda s: s.producers[0].settings == {"linger.ms": 5}),
        ("faults.0.at_s=1.5", lambda s: (s.faults[0].at_s, s.faults[0].at_messages) == (1.5, None)),
        ("cluster.settings.broker.min.insync.replicas=2", lambda s: "broker" in s.cluster.settings),
        ("topic.replication=1", lambda s: s.topics[0].replication == 1),
    ],
)
def test_set_changes_any_field(setting: str, seen: object) -> None:
    assert callable(seen)
    assert seen(good("base", setting))


@pytest.mark.parametrize("setting", ["acks", "=5", "producers.7.rate=5", "producer.rte=5", "faults.x.at_s=1"])
def test_a_setting_without_a_field_is_refused(setting: str) -> None:
    with pytest.raises(UsageProblem):
        good("base", setting)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (changed("count = 1000", "cuont = 1000"), 12, "did you mean count?"),
        (changed("count = 1000", ""), 10, "a producer needs count"),
        (changed("count = 1000", 'count = "many"'), 12, "a whole number is wanted, not text"),
        (changed("rate = 100", "rate = 100\nspeed = 3"), 14, "unknown key 'speed'"),
        (changed("rate = 100", "rtae = 100"), 13, "did you mean rate?"),
        (changed("rate = 100", "rate = -1"), 13, "positive"),
        (changed("rate = 100", 'bootstrap = ["kafka7"]'), 13, "no broker 'kafka7'"),
        (changed("partitions = 2", 'made_by = "producer"'), 8, 'topic_check = "create"'),
        (changed('"isolate"', '"explode"'), 16, "no kind of fault"),
        (changed("leader:orders/1", "leader:orders/2"), 17, "no such partition"),
        (changed("leader:orders/1", "kafka4"), 17, "no node or role"),
        (changed("leader:orders/1", "zk1"), 17, "say quorum"),
        (changed("at_messages = 300", "at_messages = 1000"), 18, "never begin"),
        (changed('until = "load-ended"', "until_messages = 100"), 19, "not after"),
        (changed('until = "load-ended"', ""), 15, "lasts"),
        (changed("partitions = 2", "replication = 5"), 8, "number of brokers"),
        (changed('lost = "allowed"', 'lots = "allowed"'), 23, "no check"),
        (changed('lost = "allowed"', 'lost = "maybe"'), 23, "required, allowed or forbidden"),
        (changed('topic = "orders"', 'topic = "ordres"'), 11, "no topic"),
        (
            GOOD + with_fault("resize", 'partitions = ["orders/*"]', "to_partitions = 2"),
            36,
            "cannot take a partition away",
        ),
        (GOOD + with_fault("resize", 'partitions = ["orders/1"]', "to_partitions = 4"), 35, "a whole topic"),
        (
            GOOD + with_fault("seek", 'partitions = ["orders/1"]', "seconds_ago = 2", "gone = true"),
            33,
            "give to_offset",
        ),
        (changed("at_messages = 300", "after_s = 3"), 18, "seconds after the fault before it"),
        (
            GOOD + '\n[[faults]]\nkind = "kill"\ntargets = ["kafka1"]\nafter_s = 30\n',
            36,
            "so it would never begin",
        ),
        (GOOD + READS + "waits = true\n", 36, "consumer:1 waits, and no fault starts it"),
        (GOOD + READS + "readers = 2\n", 36, "from 0 to its group's 1 members"),
        (GOOD + CLAIMS, 33, "claims nothing"),
        (GOOD + CLAIMS + "no_leader = true\npreferred = true\n", 33, "no_leader contradicts leader"),
    ],
)
def test_each_problem_has_its_line(text: str, line: int, words: str) -> None:
    told = problems_of(text)
    assert words.lower() in told.lower()
    assert f"bad.toml:{line}:" in told


def test_all_problems_are_listed_at_once() -> None:
    text = GOOD.replace("rate = 100", "rate = -1").replace("leader:orders/1", "kafka9").replace("lost =", "lots =")
    told = problems_of(text)
    assert told.startswith("bad.toml: 3 problems:")
    assert all(f"bad.toml:{line}:" in told for line in (13, 17, 23))


def test_all_problems_of_shape_are_listed_at_once() -> None:
    told = problems_of(GOOD.replace("rate = 100", "rtae = 100\ncopies = true").replace("partitions = 2", "parts = 2"))
    assert all(f"bad.toml:{line}:" in told for line in (8, 13, 14))


def test_problems_of_shape_and_of_sense_are_listed_together() -> None:
    text = GOOD.replace("rate = 100", "rtae = 100").replace("leader:orders/1", "kafka9").replace("lost =", "lots =")
    told = problems_of(text)
    assert told.startswith("bad.toml: 3 problems:")
    assert all(f"bad.toml:{line}:" in told for line in (13, 17, 23))


def test_a_problem_that_follows_from_another_one_is_not_listed() -> None:
    told = problems_of(GOOD.replace('[[topics]]\nname = "orders"', '[[topics]]\nnam = "orders"'))
    assert "unknown key 'nam' (did you mean name?)" in told
    assert "needs name" not in told
    assert "no topic" not in told
    assert "no such partition" not in told


def test_a_file_without_producers_is_checked_to_its_end() -> None:
    start, _, rest = GOOD.partition("[[producers]]")
    told = problems_of(start + "[[faults]]" + rest.partition("[[faults]]")[2].replace("leader:orders/1", "kafka9"))
    assert "a scenario needs producers" in told


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('topic = "orders"', 'topic = "ordres"', "did you mean orders?"),
        ('"isolate"', '"isolat"', "did you mean isolate?"),
        ("leader:orders/1", "kafak1", "did you mean kafka1?"),
        ("lost =", "losst =", "did you mean lost?"),
    ],
)
def test_a_near_miss_gets_a_hint(old: str, new: str, hint: str) -> None:
    assert hint in problems_of(changed(old, new))


def test_a_file_that_is_not_toml_is_refused_with_the_line() -> None:
    with pytest.raises(UsageProblem, match=r"bad\.toml:2: not TOML: .+[^)]$"):
        read_source("bad.toml", 'title = "x"\nname = \n')


def test_a_file_named_without_its_ending_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(GOOD)
    with pytest.raises(UsageProblem, match=r"did you mean mine\.toml\?"):
        find("mine")


def test_required_loss_without_a_fault_contradicts_itself() -> None:
    start, rest = GOOD.split("[[faults]]")
    text = start + "[expect]" + rest.split("[expect]")[1].split("[[shapes")[0].replace("allowed", "required")
    assert "nothing breaks" in problems_of(text)


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UsageProblem, match="did you mean acks1-leader-isolated"):
        find("acks1-leader-isolate")


def _with(value: object, data: Any) -> Iterator[Any]:
    """The data with this value in the place of each part of it, one after the other."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    for key, own in pairs:
        for changed_part in [value, *_with(value, own)]:
            copied = dict(data) if isinstance(data, dict) else list(data)
            copied[key] = changed_part
            yield copied


ODD: tuple[object, ...] = (
    None,
    "text",
    -1,
    2.5,
    float("nan"),
    True,
    [],
    ["text"],
    [[]],
    [{}],
    {},
    {"a": 1},
    date(2026, 1, 1),
)


@pytest.mark.parametrize("value", ODD)
def test_a_wrong_value_anywhere_is_a_problem_and_never_a_crash(value: object) -> None:
    for source in (GOOD + RECEIVES, TWO_SITES, with_drawn()):
        for data in _with(value, tomllib.loads(source)):
            with suppress(UsageProblem):
                load(Source("bad.toml", "", data))


def test_lines_are_found_for_tables_and_keys() -> None:
    lines = line_numbers(GOOD)
    assert (lines["name"], lines["faults.0"], lines["faults.0.targets"], lines["expect.lost"]) == (1, 15, 17, 23)


def test_the_schema_for_editors_knows_every_field() -> None:
    properties = json_schema()["$defs"]["Scenario"]["properties"]
    assert {field.name for field in msgspec.structs.fields(Scenario)} | {"shapes"} == set(properties)


def test_the_published_schema_is_the_one_of_this_version() -> None:
    published = Path(__file__).parents[3] / "docs" / "scenario.schema.json"
    assert json.loads(published.read_text()) == json_schema(), "ackproof schema > docs/scenario.schema.json"


def test_each_fault_says_its_effect_in_words() -> None:
    isolate = good().faults[0]
    assert isolate.effect().startswith("nftables drops every packet between leader:orders/1 and all other nodes")
    cut = Cut(["kafka1"], ["zk*"], one_way=True, port=2181, reset=True)
    assert cut.effect() == (
        "nftables answers with a reset every packet from kafka1 to zk*, and lets the other way pass, only to port 2181"
    )
    assert Elect(["orders/*"]).effect().endswith("the preferred leader lead orders/*")
    assert "orders/0 to offset 7" in Seek(["orders/0"], to_offset=7).effect()
    assert CaughtUp(["dc2.orders/*"]).effect() == "wait until the mirror has copied everything to dc2.orders/*"
    assert "readers goes on in dc2.orders/0" in Translated(["dc2.orders/0"], "readers").effect()


def test_a_claim_about_a_fault_that_hits_no_broker_is_a_problem() -> None:
    fault = '[[faults]]\nkind = "kill"\ntargets = ["quorum"]\nat_s = 1\n\n'
    claim = '[[claims]]\nat = "end"\npartitions = "orders/*"\nnot_leader = ["target:2"]\n\n[expect]'
    text = GOOD.replace("[expect]", fault + claim)
    assert "no broker 'target:2'" in problems_of(text)
    load(read_source("good.toml", text.replace('["quorum"]', '["kafka2"]')))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "isolate"', 'kind = "kill"\napart_from = ["kafka2"]', "kill has no apart_from"),
        ('kind = "isolate"', 'kind = "isolate"\none_way = true', "isolate without apart_from has no one_way"),
        (
            'kind = "isolate"',
            'kind = "isolate"\napart_from = ["kafka2"]\nport = 999999',
            "999999 is out of range: from 1, up to 65,535",
        ),
        ('kind = "isolate"', 'kind = "partition"\ngroups = [["kafka1"], ["kafka1"]]', "in more than one group"),
        ("leader:orders/1", "client", "not a server"),
        ("partitions = 2", 'partitions = 2\nsettings = { "min.insync.replicas" = 9 }', "from 1 to the number of"),
        ("partitions = 2", 'partitions = 2\nsettings = { "retention.mss" = 9 }', "did you mean retention.ms"),
        ("[[topics]]", "[cluster.settings.nobody]\na = 1\n\n[[topics]]", "nobody"),
        ("rate = 100", "rate = 100\npauses = [{ after = 5000, seconds = 1 }]", "from 1 to its messages"),
        ("rate = 100", "pauses = [{ after = 5, seconds = 1 }]", "for a producer with a rate"),
        ("partitions = 2", "partitions = 2\nafter = 1", "no fault of this number begins before_clients"),
        ('kind = "isolate"', 'kind = "isolate"\nto_offset = 5', "isolate has no to_offset"),
        ('kind = "isolate"', 'kind = "seek"\npartitions = ["orders/0"]', "give one of them"),
        ('kind = "isolate"', 'kind = "seek"\npartitions = ["orders/9"]\nto_offset = 5', "no such partition"),
        ('kind = "isolate"', 'kind = "seek"\npartitions = ["orders/0"]\nto_offset = -5', "from 0 on"),
    ],
)
def test_options_that_would_be_ignored_and_faults_that_would_never_happen_are_problems(
    old: str, new: str, words: str
) -> None:
    text = changed(old, new)
    assert words in problems_of(text.replace('"isolate"', '"pause"') if "client" in new else text)


RECEIVES = f'{READS}receiver = {{ strategy = "ids" }}\n'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (RECEIVES + with_fault("resize", 'partitions = ["orders/*"]', "to_partitions = 4"), "orders grows"),
        (RECEIVES + 'also = ["orders"]\n', "also: a receiver reads all partitions by itself"),
        (RECEIVES + "static = true\n", "static: a receiver reads all partitions by itself"),
        (with_fault("restart", 'targets = ["producer:1"]'), "only a producer with an outbox knows where it stood"),
    ],
)
def test_settings_and_faults_that_a_client_cannot_have_are_refused(more: str, words: str) -> None:
    load(read_source("good.toml", GOOD.replace("[expect]", f"{RECEIVES}\n[expect]")))
    assert words in problems_of(GOOD.replace("[expect]", f"{more}\n[expect]"))


@pytest.mark.parametrize("shapes", ["shapes = 3", "shapes = { slow = 3 }"])
def test_shapes_that_are_not_tables_are_refused(shapes: str) -> None:
    start, _, _ = GOOD.partition("[[shapes")
    with pytest.raises(UsageProblem, match="write each as a table"):
        load(read_source("bad.toml", f"{shapes}\n{start}"))


@pytest.mark.parametrize("settings", [["cluster=1", "cluster.settings.broker.x=1"], ["topics=1", "topic.name=x"]])
def test_settings_that_contradict_each_other_are_refused(settings: list[str]) -> None:
    with pytest.raises(UsageProblem, match="--set"):
        good("base", *settings)


@pytest.mark.parametrize("setting", ["producer.acs=all", "producers.0.acs=all", "cluster.brokrs=3"])
def test_a_setting_that_is_wrong_is_named_in_place_of_a_line(setting: str) -> None:
    with pytest.raises(UsageProblem, match=rf"^--set {setting}: unknown key '\w+' \(did you mean"):
        good("base", setting)


def test_librdkafka_is_asked_for_its_settings() -> None:
    text = changed("rate = 100", "rate = 100\nsettings = { retires = 0, retries = 1 }")
    ((where, words),) = refused(load(read_source("bad.toml", text)))
    assert where == "producers.0.settings.retires"
    assert "retires" in words
    assert list(refused(good())) == []


def test_seven_mistakes_in_one_file_are_seven_lines() -> None:
    text = GOOD
    for old, new in (
        ("count = 1000", 'count = -5\nacks = "2"'),
        ("rate = 100", 'rate = "fast"'),
        ('"isolate"', '"pauze"'),
        ("leader:orders/1", "leader:order/1"),
        ("until = ", "untill = "),
        ("allowed", "never"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    told = problems_of(text)
    for words in (
        "count = -5",
        "'2' is none of 0, 1, all",
        "a number is wanted, not text",
        "did you mean pause?",
        "leader:order/1: no topic 'order' (did you mean orders?)",
        "did you mean until?",
        "required, allowed or forbidden",
    ):
        assert words in told, words
    assert told.startswith("bad.toml: 7 problems:")


TWO_SITES = """name = "two-sites"
section = "X"
title = "Two sites"
summary = "A topic at each, and a mirror both ways."

[cluster]
second = 1
mirror = "both-ways"

[[topics]]
name = "orders"

[[topics]]
name = "dc2:orders"
replication = 1

[[producers]]
topic = "orders"
count = 1000
rate = 100

[[producers]]
topic = "dc2:orders"
count = 1000
rate = 100
waits = true

[[consumers]]
topic = "dc2:orders"
also = ["dc2:dc1.orders"]
group = "readers"

[[faults]]
kind = "partition"
groups = [["dc1"]]
at_s = 2
until_s = 5

[[faults]]
kind = "start"
targets = ["producer:2"]
at_s = 3

[[faults]]
kind = "caught-up"
partitions = ["dc2.orders/*"]
at_s = 300
"""


MIRRORED = 'topic = "dc2:dc1.orders"\nreceiver = { strategy = "ids" }'


def test_a_mirror_makes_a_topic_of_each_at_the_other_site() -> None:
    scenario = load(read_source("two.toml", TWO_SITES))
    assert scenario.mirrors == {"dc2:dc1.orders": "orders", "dc2.orders": "dc2:orders"}
    assert scenario.topic("dc2.orders").name == "dc2:orders"
    text = TWO_SITES.replace("both-ways", "one-way").replace('"dc2.orders/*"', '"dc2:dc1.orders/0"')
    one_way = load(read_source("two.toml", text))
    assert one_way.mirrors == {"dc2:dc1.orders": "orders"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("second = 1\n", "", "there is no second cluster"),
        ("replication = 1", "replication = 3", "from 1 to the number of brokers, 1"),
        ('also = ["dc2:dc1.orders"]', 'also = ["dc2:dc1.orderz"]', "did you mean dc2:dc1.orders"),
        ('also = ["dc2:dc1.orders"]', 'also = ["orders"]', "are at two sites"),
        ('topic = "dc2:orders"\nalso = ["dc2:dc1.orders"]', f"{MIRRORED}", "what a mirror made"),
        ('kind = "start"\n', 'kind = "stop"\n', "producer:2 waits, and no fault starts it"),
        ('"dc2.orders/*"', '"orders/*"', "not a mirror's"),
        ('"dc2.orders/*"', '"dc2.orders/7"', "no such partition"),
        ('kind = "caught-up"', 'kind = "translated"', "translated needs group"),
        ('kind = "caught-up"', 'kind = "caught-up"\ngroup = "readers"', "caught-up has no group"),
        ('groups = [["dc1"]]', 'groups = [["dc3"]]', "did you mean dc"),
        ('mirror = "both-ways"', 'mirror = "back"', "mirror"),
        ("second = 1", "second = 1\nlog_dirs = 2", "log_dirs are inspected at dc1 only"),
        ("second = 1", 'second = 1\naccess = { users = ["alice"] }', "access is for one cluster"),
        ('topic = "dc2:orders"\ncount', 'topic = "dc2:orders"\ncommand = ["x"]\ncount', "the brokers of dc1"),
        ('kind = "caught-up"', 'kind = "elect"', "elect is for topics of dc1 that no mirror makes"),
        ("at_s = 300", "at_s = 4", "the mirror is cut off at this moment"),
        ("until_s = 5", 'until = "load-ended"', "the mirror is cut off at this moment"),
    ],
)
def test_mistakes_with_two_sites_are_reported(old: str, new: str, words: str) -> None:
    assert old in TWO_SITES
    assert words in problems_of(TWO_SITES.replace(old, new, 1))


@pytest.mark.parametrize("at_s", [1, 5])
def test_a_mirror_may_catch_up_before_and_after_a_cut(at_s: int) -> None:
    load(read_source("two.toml", TWO_SITES.replace("at_s = 300", f"at_s = {at_s}")))


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("elect", ['partitions = ["dc2:orders/0"]']),
        ("seek", ['partitions = ["dc2:orders/*"]', "to_offset = 5"]),
        ("resize", ['partitions = ["dc2:orders/*"]', "to_partitions = 2"]),
    ],
)
def test_elections_seeks_and_resizes_are_for_topics_of_the_first_site(kind: str, lines: list[str]) -> None:
    assert f"{kind} is for topics of dc1" in problems_of(TWO_SITES + with_fault(kind, *lines))
    load(read_source("two.toml", TWO_SITES + with_fault(kind, *lines).replace("dc2:", "")))


DRAWN = """
[drawn]
every_s = 5
lasts_s = 2

[[drawn.faults]]
kind = "kill"
targets = ["leader:orders/0"]

[[drawn.faults]]
kind = "pause"
targets = ["follower:orders/0"]

[[drawn.faults]]
kind = "kill"
targets = ["quorum:1"]
"""


def with_drawn(old: str = "", new: str = "") -> str:
    assert old in DRAWN
    at = GOOD.index("[[faults]]")
    return GOOD[:at].replace("count = 1000", "count = 10_000") + DRAWN.replace(old, new, 1)


def drawn(seed: int) -> list[Fault]:
    return load(read_source("drawn.toml", with_drawn()), seed=seed).faults


@pytest.mark.proves("G1")
def test_the_same_seed_draws_the_same_faults() -> None:
    assert drawn(7) == drawn(7)
    assert len({tuple(fault.what() for fault in drawn(seed)) for seed in range(20)}) > 10


def test_a_drawn_fault_is_over_before_the_next_one_begins() -> None:
    faults = drawn(7)
    begun = [fault for fault in faults if fault.kind != "start"]
    assert [fault.at_s for fault in begun] == [5 * turn for turn in range(1, len(begun) + 1)]
    for number, fault in enumerate(faults, start=1):
        if isinstance(fault, Pause):
            assert fault.until_s == (fault.at_s or 0) + 2
        if fault.kind == "kill":
            again = faults[number]
            assert again == Start([f"target:{number}"], at_s=(fault.at_s or 0) + 2)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("lasts_s = 2", "lasts_s = 5", "lasts_s = 5: above 0, and less than every_s = 5"),
        ("every_s = 5", "every_s = 5000", "every_s = 5000: the load lasts twice as long at least"),
        ('"pause"', '"elect"', "elect cannot be drawn at random"),
        ('"pause"', '"paus"', "no kind of fault 'paus' (did you mean pause?)"),
        ("orders/0", "orders/99", "leader:orders/99: no such partition"),
        ('kind = "kill"', 'kind = "kill"\nat_s = 3', "at_s: every_s and lasts_s say when it begins and ends"),
        ("every_s", "evry_s", "unknown key 'evry_s' (did you mean every_s?)"),
    ],
)
def test_a_fault_that_cannot_be_drawn_is_reported_with_its_line(old: str, new: str, told: str) -> None:
    words = problems_of(with_drawn(old, new))
    assert told in words
    assert re.search(r"bad.toml:\d+: ", words)
