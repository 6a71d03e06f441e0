"""A run whose fault is taken away behind the laboratory's back is no evidence: unknown, and exit code 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_lab import User, ourselves

from ackproof.lab.rules import TABLE
from ackproof.verdict import read_verdict

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SMALL = {
    "producer.count": 8000,
    "producer.rate": 1000,
    "faults.0.at_messages": 2000,
    "faults.0.not_before_max_s": 1,  # nothing fails over that is not cut off
    "cluster.quorum": 1,
}
REMOVE = f"""
from pyroute2.nftables.main import NFTables
with NFTables(nfgen_family=2) as nft:
    nft.table("del", name={TABLE!r})
"""


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.mark.proves("D1")
def test_a_run_whose_rules_are_removed_while_it_goes_on_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    words = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    run = us.start("run", "acks1-leader-isolated", *words, "--out", str(tmp_path))
    try:
        assert run.stderr is not None
        assert any("severed" in line for line in run.stderr)
        (lab,) = (us.state / "ackproof" / "labs").iterdir()
        done = us.run("exec", "--name", lab.name, "observer", "--", us.python, "-c", REMOVE)
        assert done.returncode == 0, done.stderr
        _, err = run.communicate(timeout=250)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 3, err
    (directory,) = tmp_path.iterdir()
    verdict = read_verdict(directory)
    assert verdict.result == "unknown"
    assert "did not hold for all of its time" in verdict.sentence
    record_property("figure", f"rules removed while a run went on: exit 3. {verdict.sentence}")
