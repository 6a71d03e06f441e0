"""Makes the JSON Schema of scenario files, for editors."""

from __future__ import annotations

from typing import Any

import msgspec

from ackproof.model.checks import CHECKS
from ackproof.model.scenario import Scenario


def json_schema() -> dict[str, Any]:
    """Return what a scenario file may hold. A shape may change any part of it."""
    schema = msgspec.json.schema(Scenario)
    definitions = schema["$defs"]
    for definition in definitions.values():
        definition["additionalProperties"] = False
    properties = definitions["Scenario"]["properties"]
    properties["shapes"] = {"type": "object", "description": "Changes to the scenario, by the shape's name."}
    for name in ("expect", "expect_zookeeper", "expect_kraft"):
        word = {"enum": ["required", "allowed", "forbidden"]}
        properties[name] = {
            "type": "object",
            "properties": dict.fromkeys(CHECKS, word),
            "additionalProperties": False,
        }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ackproof scenario", **schema}
