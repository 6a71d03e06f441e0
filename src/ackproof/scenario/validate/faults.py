"""Reports what is wrong with a scenario's faults beyond their shape: impossible times, unknown names, wrong targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import assert_never

import msgspec

from ackproof.core.sites import FIRST_SITE, placed
from ackproof.model.fault import CLIENTS, AnyFault, LastingFault, ProcessFault
from ackproof.model.faults import DRAWN, HIT_CLIENTS, Fault, Isolate, Partition, Start
from ackproof.model.scenario import SITE_ROLES, DrawnPlan, Scenario
from ackproof.model.steps import CaughtUp, Elect, Resize, Seek, Translated
from ackproof.scenario.shape import Problem
from ackproof.scenario.validate.names import is_partition, why_unknown


def fault_problems(scenario: Scenario) -> Iterator[Problem]:
    for number, fault in enumerate(scenario.faults):
        yield from _fault(scenario, fault, f"faults.{number}", number)
    if scenario.drawn is not None:
        yield from _drawn(scenario, scenario.drawn)


def _fault(scenario: Scenario, fault: Fault, where: str, number: int) -> Iterator[Problem]:
    if fault.family == "nodes" and any(name.startswith("client") for name in fault.asked):
        yield f"{where}.targets", f"client is a namespace for programs, not a server: there is nothing to {fault.kind}"
    match fault:
        case Isolate():
            yield from _isolate(fault, where)
        case Partition():
            counts = Counter(name for group in fault.groups for name in group)
            if twice := [name for name, count in counts.items() if count > 1]:
                yield f"{where}.groups", f"{', '.join(twice)}: in more than one group"
        case Seek():
            yield from _seek(fault, where)
            yield from _at_first_site(scenario, fault, where)
            yield from _partitions(scenario, fault, where)
        case Elect():
            yield from _at_first_site(scenario, fault, where)
            yield from _partitions(scenario, fault, where)
        case Resize():
            yield from _resize(scenario, fault, where)
            yield from _at_first_site(scenario, fault, where)
        case CaughtUp():
            yield from _of_mirror(scenario, fault, where)
            if any(_cuts_mirror_off(other, fault) for other in scenario.faults):
                told = "the mirror is cut off at this moment, so it cannot catch up; begin once that has healed"
                yield where, f"caught-up: {told}"
            yield from _partitions(scenario, fault, where)
        case Translated():
            if fault.group not in {consumer.group for consumer in scenario.consumers}:
                yield f"{where}.group", f"group = {fault.group!r}: no consumer is in this group"
            yield from _of_mirror(scenario, fault, where)
            yield from _partitions(scenario, fault, where)
        case ProcessFault() | LastingFault():
            pass
        case _:
            assert_never(fault)
    if fault.on_clients:
        yield from _at_clients(scenario, fault, where)
    yield from _times(scenario, fault, where, number)
    for field, name in fault.names:
        if sentence := why_unknown(scenario, name):
            yield f"{where}.{field}", sentence


def _isolate(fault: Isolate, where: str) -> Iterator[Problem]:
    for name in ("one_way", "port", "new_connections", "reset"):
        if getattr(fault, name) and not fault.apart_from:
            yield f"{where}.{name}", f"isolate without apart_from has no {name}"


def _seek(fault: Seek, where: str) -> Iterator[Problem]:
    if (fault.to_offset is None) == (fault.seconds_ago is None):
        yield where, "seek goes to_offset or seconds_ago: give one of them"
    if fault.before_clients or (fault.to_offset or 0) < 0 or (fault.seconds_ago or 0) < 0:
        yield where, "seek goes to a place of the load: at an offset from 0 on, or seconds ago, while the load goes on"
    if fault.gone and fault.to_offset is None:
        yield where, "gone is said of an offset: give to_offset"


def _resize(scenario: Scenario, fault: Resize, where: str) -> Iterator[Problem]:
    sizes = {f"{topic.name}/*": topic.partitions for topic in scenario.topics}
    for name in fault.partitions:
        if name not in sizes:
            yield f"{where}.partitions", f"{name!r}: resize takes a whole topic, written as TOPIC/*"
        elif not sizes[name] < fault.to_partitions <= 1000:
            yield (
                f"{where}.to_partitions",
                f"to_partitions = {fault.to_partitions}: more than the {sizes[name]} there are, up to 1000; "
                "Kafka cannot take a partition away, because its records would be lost",
            )


def _at_first_site(scenario: Scenario, fault: Elect | Seek | Resize, where: str) -> Iterator[Problem]:
    for name in fault.partitions:
        topic = name.rpartition("/")[0]
        if placed(topic)[0] != FIRST_SITE or topic in scenario.mirrors:
            told = f"{fault.kind} is for topics of {FIRST_SITE} that no mirror makes"
            yield f"{where}.partitions", f"{name!r}: {told}"


def _partitions(scenario: Scenario, fault: Elect | Seek | CaughtUp | Translated, where: str) -> Iterator[Problem]:
    for name in fault.partitions:
        if not is_partition(scenario, name.replace("/*", "/0")):
            yield f"{where}.partitions", f"{name!r}: no such partition; write it as TOPIC/PARTITION, or TOPIC/*"


def _of_mirror(scenario: Scenario, fault: CaughtUp | Translated, where: str) -> Iterator[Problem]:
    for name in fault.partitions:
        if name.rpartition("/")[0] not in scenario.mirrors:
            made = ", ".join(scenario.mirrors) or "none"
            yield f"{where}.partitions", f"{name!r}: not a mirror's; write TOPIC/*, its topics are {made}"


def _cuts_mirror_off(fault: Fault, step: CaughtUp) -> bool:
    """Whether this fault surely separates the sites, or hits the mirror, when the step begins."""
    if not isinstance(fault, LastingFault) or not fault.about.silences:
        return False
    if not {name for _, name in fault.names} & {*SITE_ROLES, "mirror"}:
        return False
    times = (
        (fault.at_s, step.at_s, fault.until_s),
        (fault.at_messages, step.at_messages, fault.until_messages),
    )
    return any(
        begins is not None and now is not None and begins <= now and (fault.until or (ends is not None and now < ends))
        for begins, now, ends in times
    )


def _at_clients(scenario: Scenario, fault: AnyFault, where: str) -> Iterator[Problem]:
    for number, plan in enumerate(scenario.each_producer, start=1):
        again = fault.about.starts and not (isinstance(fault, Start) and plan.waits)
        if f"producer:{number}" in fault.asked and again and not (plan.outbox or plan.command):
            yield f"{where}.targets", f"producer:{number}: only a producer with an outbox knows where it stood"
    if fault.before_clients:
        yield f"{where}.before_clients", "there are no clients yet that a fault could hit"
    if fault.kind not in HIT_CLIENTS:
        yield f"{where}.kind", f"{fault.kind}: faults that can hit a client are {', '.join(HIT_CLIENTS)}"
    if not all(target.startswith(CLIENTS) for target in fault.asked):
        yield f"{where}.targets", "clients and nodes cannot be targets of one fault: write two"


# -- times -----------------------------------------------------------------------------------------------------------


def _times(scenario: Scenario, fault: Fault, where: str, number: int) -> Iterator[Problem]:
    if len(fault.begins_by) != 1:
        yield where, "a fault begins at_s, at_messages, after_s or before_clients: give one of them"
        return
    if fault.after_s is not None and (number == 0 or fault.after_s < 0):
        yield f"{where}.after_s", f"after_s = {fault.after_s:g}: so many seconds after the fault before it"
        return
    if fault.lasting and len(fault.ends_by) != 1:
        few = "exactly one" if fault.ends_by else "one"
        yield where, f'{fault.kind} lasts: give {few} of until_s, until_messages, until = "load-ended"'
    if not scenario.producers or any(producer.count < 1 for producer in scenario.producers):
        return  # which is reported already
    if negative := [name for name in ("at_messages", "at_s") if (getattr(fault, name) or 0) < 0]:
        yield f"{where}.{negative[0]}", f"{negative[0]} = {getattr(fault, negative[0]):g}: it must be 0 or more"
        return
    yield from _beginning(scenario, fault, where, number)
    if isinstance(fault, LastingFault):
        yield from _end(scenario, fault, where)


def _beginning(scenario: Scenario, fault: AnyFault, where: str, number: int) -> Iterator[Problem]:
    if fault.at_messages is not None and fault.at_messages >= scenario.total:
        told = f"only {scenario.total} messages are sent, so it would never begin"
        yield f"{where}.at_messages", f"at_messages = {fault.at_messages}: {told}"
    ends_s = min(scenario.timeout_s, scenario.lasts_s or scenario.timeout_s)
    if fault.after_s is not None and not scenario.earliest_s(number) < ends_s:
        yield f"{where}.after_s", f"after_s = {fault.after_s:g}: the load lasts {ends_s:g} s, so it would never begin"
    if fault.at_s is not None and fault.at_s >= ends_s:
        yield f"{where}.at_s", f"at_s = {fault.at_s:g}: the load lasts {ends_s:g} s, so it would never begin"


def _end(scenario: Scenario, fault: LastingFault, where: str) -> Iterator[Problem]:
    if fault.until_s is not None and not fault.until_s > (fault.at_s or 0):
        yield f"{where}.until_s", f"until_s = {fault.until_s:g} is not after at_s = {fault.at_s or 0:g}"
    if fault.until_messages is not None and fault.at_messages is not None and fault.until_messages <= fault.at_messages:
        yield f"{where}.until_messages", "until_messages is not after at_messages"
    if fault.until_messages is not None and fault.until_messages > scenario.total:
        yield f"{where}.until_messages", f"only {scenario.total} messages are sent, so it would never end"
    if fault.not_before_new_epoch is not None and not is_partition(scenario, fault.not_before_new_epoch):
        told = "no such partition; write it as TOPIC/PARTITION"
        yield f"{where}.not_before_new_epoch", f"{fault.not_before_new_epoch!r}: {told}"


def _drawn(scenario: Scenario, drawn: DrawnPlan) -> Iterator[Problem]:
    """Report what is wrong with each fault that may be drawn, checked as the first fault, and whether any is drawn."""
    if not 0 < drawn.lasts_s < drawn.every_s:
        yield "drawn.lasts_s", f"lasts_s = {drawn.lasts_s:g}: above 0, and less than every_s = {drawn.every_s:g}"
        return
    if not drawn.faults:
        yield "drawn", "there is nothing to draw: give [[drawn.faults]]"
    load_s = scenario.lasts_s
    if load_s is None or load_s < 2 * drawn.every_s:
        told = "no end that is known: give every producer a rate" if load_s is None else f"only {load_s:g} s"
        yield "drawn.every_s", f"every_s = {drawn.every_s:g}: the load lasts twice as long at least, and has {told}"
        return
    for number, fault in enumerate(drawn.faults):
        where = f"drawn.faults.{number}"
        if fault.kind not in DRAWN:
            yield f"{where}.kind", f"{fault.kind} cannot be drawn at random; these can: {', '.join(DRAWN)}"
        if given := [*fault.begins_by, *fault.ends_by]:
            yield where, f"{', '.join(given)}: every_s and lasts_s say when it begins and ends"
            continue
        as_first = msgspec.structs.replace(scenario, faults=[fault])
        for step in drawn.steps(fault, drawn.every_s, 1):
            yield from _fault(as_first, step, where, 0)
