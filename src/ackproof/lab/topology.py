"""Links between nodes: which links a partition cuts, and which groups of nodes still reach each other. Pure, on names.

A link is directed: (sender, receiver). A partition is given as groups of names, as in Blockade. A name may be in
several groups: so a leader can lose only ZooKeeper. Nodes that no group names form one more group. `client` is in every
group unless a group names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations

Link = tuple[str, str]


def completed_groups(groups: Sequence[Collection[str]], nodes: Sequence[str]) -> list[frozenset[str]]:
    named = {name for group in groups for name in group}
    unnamed = frozenset(name for name in nodes if name not in named)
    clients = frozenset(name for name in unnamed if name.startswith("client"))
    completed = [frozenset(group) for group in groups] + ([unnamed - clients] if unnamed - clients else [])
    return [group | clients for group in completed]


def severed_by_groups(groups: Sequence[Collection[str]], nodes: Sequence[str]) -> frozenset[Link]:
    """The links between nodes that share no group."""
    completed = completed_groups(groups, nodes)
    return frozenset(
        (source, target)
        for source, target in permutations(nodes, 2)
        if not any(source in group and target in group for group in completed)
    )


def severed_between(left: Iterable[str], right: Iterable[str], one_way: bool = False) -> frozenset[Link]:
    forth = {(source, target) for source in left for target in right if source != target}
    return frozenset(forth if one_way else forth | {(target, source) for source, target in forth})


def links_of(names: Collection[str], nodes: Sequence[str]) -> frozenset[Link]:
    """The links that have one of these nodes at either end."""
    return frozenset(link for link in permutations(nodes, 2) if link[0] in names or link[1] in names)


def groups_of(reachable: Mapping[str, Mapping[str, bool]]) -> list[list[str]]:
    """The largest sets of nodes that all reach each other: the actual partition.

    The maximal cliques, by the algorithm of Bron and Kerbosch; a lab has at most a few dozen nodes.
    """
    hears = {
        a: {b for b in reachable if b != a and reachable[a].get(b, False) and reachable[b].get(a, False)}
        for a in reachable
    }
    found: list[list[str]] = []

    def grow(clique: set[str], candidates: set[str], excluded: set[str]) -> None:
        if not candidates and not excluded:
            found.append(sorted(clique))
            return
        pivot = max(sorted(candidates | excluded), key=lambda name: len(hears[name] & candidates))
        for name in sorted(candidates - hears[pivot]):
            grow(clique | {name}, candidates & hears[name], excluded & hears[name])
            candidates = candidates - {name}
            excluded = excluded | {name}

    grow(set(), set(hears), set())
    return sorted(found, key=lambda group: (-len(group), group))
