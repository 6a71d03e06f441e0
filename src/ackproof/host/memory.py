"""How much memory is available, and whether it is enough. `doctor`, `up` and `add` all ask here."""

from __future__ import annotations

from pathlib import Path

from ackproof.core.errors import CannotHere


def available_mb() -> int:
    """The available memory of the machine or, if a control group limits us, of that group."""
    fields = dict(line.split(":") for line in _read("/proc/meminfo").splitlines())
    machine = int(fields["MemAvailable"].split()[0]) // 1024
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        return min(machine, (int(limit) - int(used)) // 2**20)
    return machine


def check_memory(needed_mb: int) -> None:
    free_mb = available_mb()
    if free_mb < needed_mb:
        raise CannotHere(
            f"this needs about {needed_mb} MB of memory and {free_mb} MB are free: close something, "
            "or ask for fewer --brokers, a smaller --quorum or, in a scenario, fewer clients"
        )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
