"""A scenario's health check: everything that can be wrong with it, with its line."""

from __future__ import annotations

import pytest

from ackproof.scenario.load import load
from ackproof.scenario.source import read_source
from tests.support.scenarios import changed, problems_of

GOOD = changed('until = "load-ended"', "until_messages = 600")
HEALTH = '\n[health]\ntopic = "orders"\n'
ALERT = '\n[[alerts]]\nrule = "rate"\nfault = 1\n'


def test_a_good_one() -> None:
    scenario = load(read_source("good.toml", GOOD + HEALTH + ALERT))
    assert scenario.health is not None
    assert (scenario.health.line, scenario.alerts[0].within_s) == (800, 5)


def test_a_fault_that_does_not_last_is_undone_by_another() -> None:
    undone = ALERT.replace("= 1", "= 2") + "undone_by = 3\n"
    start = KILL.replace("kill", "start").replace("= 5", "= 8")
    assert load(read_source("good.toml", GOOD + HEALTH + KILL + start + undone)).alerts[0].undone_by == 3


KILL = '\n[[faults]]\nkind = "kill"\ntargets = ["kafka1"]\nat_s = 5\n'
PAUSE = KILL.replace("kill", "pause") + 'until = "load-ended"\n'
BAD = {
    "no topic 'order' (did you mean orders?)": HEALTH.replace("orders", "order"),
    "line = 0: a positive number": HEALTH + "line = 0\n",
    "webhook = 'nowhere': write it as http://": HEALTH + 'webhook = "nowhere"\n',
    "prometheus = 70000: a port": HEALTH + "prometheus = 70000\n",
    "alerts come from a health check: add [health]": ALERT,
    "no rule 'rates' (did you mean rate?)": HEALTH + ALERT.replace('"rate"', '"rates"'),
    "fault = 7: there are 1 faults": HEALTH + ALERT.replace("fault = 1", "fault = 7"),
    "within_s = 0: above 0": HEALTH + ALERT + "within_s = 0\n",
    "clears_within_s = 601: above 0": HEALTH + ALERT + "clears_within_s = 601\n",
    "fault 1 is healed: nothing else undoes it": HEALTH + ALERT + "undone_by = 1\n",
    "fault 2 does not last: name the fault that undoes it": HEALTH + KILL + ALERT.replace("= 1", "= 2"),
    "undone_by = 3: there are 2 faults": HEALTH + KILL + ALERT.replace("= 1", "= 2") + "undone_by = 3\n",
    "fault 2 is healed after the load": HEALTH + PAUSE + ALERT.replace("= 1", "= 2"),
    "unknown key 'lin' (did you mean line?)": HEALTH + "lin = 5\n",
}


@pytest.mark.parametrize("sentence", BAD)
def test_a_bad_one_says_what_is_wrong(sentence: str) -> None:
    told = problems_of(GOOD + BAD[sentence])
    assert sentence in told
    assert told.startswith("bad.toml:")
