"""The registry of faults and the files that it names match."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import get_args

import msgspec
import pytest

from ackproof.lab.faults.injection import Injection, function_of
from ackproof.model.fault import AnyFault, LastingFault, ProcessFault, kind_of
from ackproof.model.faults import FAULTS, HIT_CLIENTS, Cut, Fault, Kill, Partition
from ackproof.model.steps import Step

FAMILIES = sorted({fault.family for fault in FAULTS.values() if fault.family is not None})


def defined_below(kind: type[AnyFault]) -> set[type[AnyFault]]:
    return {each for below in kind.__subclasses__() for each in (below, *defined_below(below))}


def test_every_kind_that_is_defined_is_in_the_union() -> None:
    assert set(get_args(Fault)) == defined_below(AnyFault) - {ProcessFault, LastingFault, Step}


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.family is not None])
def test_each_kind_has_its_function_in_the_file_of_its_family(name: str) -> None:
    function = function_of(FAULTS[name])
    wanted = [Injection, FAULTS[name], "FaultResult"]
    told = [getattr(each, "__name__", each) for each in wanted]
    signature = inspect.signature(function)
    given = [*(each.annotation for each in signature.parameters.values()), signature.return_annotation]
    assert [each.rpartition(".")[2] for each in given] == told


@pytest.mark.parametrize("family", FAMILIES)
def test_no_file_has_a_function_for_a_kind_that_is_not_known(family: str) -> None:
    module = import_module(f"ackproof.lab.faults.{family}")
    injected = [
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and "fault" in inspect.signature(function).parameters
    ]
    known = [name.replace("-", "_") for name, fault in FAULTS.items() if fault.family == family]
    assert sorted(name for name in injected if not name.startswith("_")) == sorted(known)


def test_a_step_of_a_run_has_no_family_and_the_others_have_one() -> None:
    steps = {kind_of(each) for each in Step.__subclasses__()}
    assert {name for name, fault in FAULTS.items() if fault.family is None} == steps


@pytest.mark.parametrize("name", FAULTS)
def test_each_kind_says_what_it_does_and_what_proves_it(name: str) -> None:
    kind = FAULTS[name]
    assert (inspect.getdoc(kind) or "").partition("\n")[0].endswith(".")
    assert kind.about.proof
    assert kind.about.ends
    assert kind.effect is not AnyFault.effect
    assert kind.lasting is issubclass(kind, LastingFault)


def test_the_names_of_a_fault_are_those_in_all_its_fields() -> None:
    cut = Cut(["kafka1"], ["zk1", "zk2"])
    assert cut.names == [("targets", "kafka1"), ("apart_from", "zk1"), ("apart_from", "zk2")]
    assert Partition([["kafka1", "zk1"], ["kafka2"]]).asked == ["kafka1,zk1", "kafka2"]
    assert Kill(["producer:1"]).on_clients
    assert not Cut(["kafka1"], ["client"]).on_clients


def test_names_can_be_replaced_in_all_fields() -> None:
    def twice(names: list[str]) -> list[str]:
        return [name for name in names for _ in range(2)]

    assert Cut(["a"], ["b"], at_s=1).renamed(twice) == Cut(["a", "a"], ["b", "b"], at_s=1)
    assert Partition([["a"], ["b"]]).renamed(twice) == Partition([["a", "a"], ["b", "b"]])


def test_options_of_other_kinds_that_an_older_run_recorded_are_left_out() -> None:
    recorded = {"kind": "kill", "targets": ["kafka1"], "apart_from": [], "until_s": None, "loss": None, "at_s": 3.0}
    assert msgspec.convert(recorded, Fault) == Kill(["kafka1"], at_s=3.0)


def test_the_kinds_that_can_hit_clients_are_those_that_a_run_injects_at_clients() -> None:
    assert set(HIT_CLIENTS) == {"kill", "stop", "start", "restart", "pause"}, "add the kind to `Clients.disturb`"
