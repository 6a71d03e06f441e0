"""A new run directory, and the first content of its run.json."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from ackproof.api.run_request import RunRequest
from ackproof.core.errors import CannotHere
from ackproof.lab.spec import LabSpec
from ackproof.model.run_record import Clock, ConsumerRecord, FaultRecord, ProducerRecord, RunRecord
from ackproof.run.execution import versions


def make_run_directory(request: RunRequest) -> Path:
    """Make a directory that is named after the time and the scenario, and that did not exist before."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{request.scenario.name}-{request.shape}-{request.mode}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        directory = request.out / (name + suffix)
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as problem:
            raise CannotHere(
                f"{directory} cannot be made ({problem.strerror}): use --out for another place"
            ) from problem
        (directory / "logs").mkdir()
        return directory
    raise CannotHere(f"{request.out} already holds a thousand runs of this second")


def new_record(request: RunRequest, spec: LabSpec, directory: Path) -> RunRecord:
    """Return the record of a run that is about to begin."""
    scenario = request.scenario
    topics = [*(topic.name for topic in scenario.topics), *scenario.mirrors]
    groups = sorted({consumer.group for consumer in scenario.consumers})
    return RunRecord(
        run=time.time_ns() // 1000,
        name=directory.name,
        scenario=scenario.name,
        section=scenario.section,
        title=scenario.title,
        shape=request.shape,
        mode=request.mode,
        kafka=request.version,
        seed=request.seed,
        argv=request.command(),
        versions=versions(request.version),
        expect=scenario.expected(request.mode),
        topics=topics,
        groups=groups,
        producers=[
            ProducerRecord(number, f"producer{number + 1}", topics.index(plan.topic), plan.acks, plan.count, plan.rate,
                           dict(plan.settings))
            for number, plan in enumerate(scenario.each_producer)
        ],
        consumers=[
            ConsumerRecord(number, f"consumer{number + 1}", topics.index(plan.topic), groups.index(plan.group),
                           dict(plan.settings), plan.start)
            for number, plan in enumerate(scenario.each_consumer)
        ],
        faults=[
            FaultRecord(number, plan.kind, plan.asked, plan.severed_from, plan.when(), plan.heals(), plan.step)
            for number, plan in enumerate(scenario.faults, start=1)
        ],
        nodes={node.kafka_id: node.name for node in spec.nodes if node.role in ("broker", "controller")},
        began=Clock(time.time_ns(), time.monotonic_ns()),
        plan=scenario,
        mirrors={topics.index(made): topics.index(source) for made, source in scenario.mirrors.items()},
    )  # fmt: skip
