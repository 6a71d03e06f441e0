"""External clients: Kafka's verifiable producer and consumer, and the client of docs/your-client.md."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.model.verdict import read_verdict
from tests.support.real_lab import User, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

PAGE = Path(__file__).parents[2] / "docs" / "your-client.md"


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


def ran(us: User, out: Path, *words: str) -> tuple[dict[str, Any], dict[str, tuple[int | None, str]]]:
    done = us.run("run", *words, "--out", str(out), "--json", timeout_s=380)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    (directory,) = out.iterdir()
    verdict = read_verdict(directory)
    assert [line.text for line in verdict.fitness if line.name == "clients"] == []
    told: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    return told, {check.name: (check.found, check.result) for check in verdict.checks}


@pytest.mark.long
def test_kafkas_verifiable_pair_is_judged_by_what_it_prints(us: User, tmp_path: Path) -> None:
    fewer = ("--set", "producer.count=3000", "--set", "faults.0.at_messages=1000")
    told, checks = ran(us, tmp_path, "foreign-verifiable", "--mode", "kraft", *fewer)
    assert (told["result"], told["sent"], told["lost"]) == ("confirmed", 3000, 0)
    assert told["acked"] > 2000  # it does not retry, so messages that met the dying leader failed
    assert checks["undelivered"] == (0, "confirmed")
    assert checks["ack_latency"] == (None, "not applicable")


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_a_shell_script_around_kcat_is_judged(us: User, tmp_path: Path) -> None:
    fewer = ("--set", "producer.count=60", "--set", "faults.0.at_messages=20")
    told, checks = ran(us, tmp_path, "foreign-kcat", *fewer)
    assert (told["result"], told["sent"], told["lost"]) == ("confirmed", 60, 0)
    assert (checks["poll_skip"], checks["nonmonotonic_poll"]) == ((0, "confirmed"), (0, "confirmed"))


def test_our_consumer_reads_what_the_client_of_the_docs_sends_from_the_host(us: User, tmp_path: Path) -> None:
    page = PAGE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (scenario,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_client.py").write_text(code)
    command = scenario.replace(
        '"python3", "my_client.py"', json.dumps([sys.executable, str(tmp_path / "my_client.py")])[1:-1]
    )
    (tmp_path / "my-client.toml").write_text(command)
    (tmp_path / "runs").mkdir()
    told, checks = ran(us, tmp_path / "runs", str(tmp_path / "my-client.toml"))
    assert (told["result"], told["sent"], told["lost"]) == ("confirmed", 1500, 0)
    assert (checks["phantom"], checks["undelivered"]) == ((0, "confirmed"), (0, "confirmed"))
    assert checks["ownership_gap"][1] == "confirmed"  # it is known for our own consumer
