"""`ackproof explain`."""

from __future__ import annotations

import json

from tests.support.command_line import Run, run, state

__all__ = ["run", "state"]  # fixtures


def test_explain_says_what_a_word_means_and_what_to_do(run: Run) -> None:
    code, out, err = run("explain", "lost")
    assert (code, err) == (0, "")
    assert out.startswith("lost (check)\n  A message was acknowledged")
    assert "\n  What to do: Use acks=all" in out


def test_a_word_that_is_a_check_and_a_fate_has_both(run: Run) -> None:
    _, out, _ = run("explain", "resurrected")
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "resurrected (check)",
        "resurrected (fate)",
    ]


def test_a_word_that_is_nearly_right_gets_a_hint(run: Run) -> None:
    code, out, err = run("explain", "stale_leader")
    assert (code, out) == (2, "")
    assert "no word 'stale_leader' (did you mean stale_leader_ack?)" in err


def test_without_a_word_all_are_listed(run: Run) -> None:
    code, out, _ = run("explain")
    assert code == 0
    assert "Checks:\n  lost, duplicated, reordered" in out
    assert "Faults:\n  kill, stop, start" in out


def test_explain_as_json(run: Run) -> None:
    code, out, _ = run("explain", "isolate", "--json")
    (entry,) = json.loads(out)
    assert (code, entry["kind"], entry["word"]) == (0, "fault", "isolate")
    assert set(entry) == {"kind", "word", "meaning", "advice"}
