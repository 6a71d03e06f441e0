"""Reports everything that is wrong with a scenario beyond its shape: impossible times, unknown names, contradictions.

Each problem is a place in the file and a sentence. Nothing is started to find them.
"""

from __future__ import annotations

from ackproof.model.scenario import Scenario
from ackproof.scenario.shape import Problem
from ackproof.scenario.validate.access import access_problems, transaction_problems
from ackproof.scenario.validate.claims import claim_problems
from ackproof.scenario.validate.clients import client_problems
from ackproof.scenario.validate.cluster import cluster_problems
from ackproof.scenario.validate.expectations import expectation_problems
from ackproof.scenario.validate.external_clients import external_client_problems
from ackproof.scenario.validate.faults import fault_problems
from ackproof.scenario.validate.health import health_problems
from ackproof.scenario.validate.topics import topic_problems

_PARTS = (
    cluster_problems,
    topic_problems,
    client_problems,
    access_problems,
    transaction_problems,
    fault_problems,
    claim_problems,
    health_problems,
    expectation_problems,
    external_client_problems,
)


def problems(scenario: Scenario) -> list[Problem]:
    return [problem for part in _PARTS for problem in part(scenario)]
