"""Select the nodes of a cluster that `--nodes` or `--node` names."""

from __future__ import annotations

from nbprov.model.errors import UsageError
from nbprov.provisioning.live_cluster import LiveCluster, Node


def chosen_nodes(live: LiveCluster, nodes: str) -> list[Node]:
    """Return the nodes that `head`, `all`, a number, a list `0,2` or a range `1-3` means.

    Raises
    ------
    UsageError
        If there is no such node.
    """
    return [live.nodes[number] for number in node_numbers(nodes, len(live.nodes), live.name)]


def one_node(live: LiveCluster, number: int) -> Node:
    """Return the node that `--node` names.

    Raises
    ------
    UsageError
        If there is none.
    """
    if not 0 <= number < len(live.nodes):
        raise UsageError(
            f"{live.name} has no node {number}",
            hint=f"its nodes: 0 to {len(live.nodes) - 1}"
            if len(live.nodes) > 1
            else "it has one node, 0",
        )
    return live.nodes[number]


def node_numbers(text: str, count: int, name: str) -> list[int]:
    """Return the sorted numbers that `--nodes` means, each once.

    Examples
    --------
    >>> node_numbers("2,0", 4, "dev"), node_numbers("1-3", 4, "dev"), node_numbers("all", 2, "dev")
    ([0, 2], [1, 2, 3], [0, 1])
    """
    if text == "all":
        return list(range(count))
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        first = "0" if first == "head" and not dash else first
        last = last if dash else first
        if not (
            first.isdecimal()
            and last.isdecimal()
            and len(last) < 6
            and int(first) <= int(last) < count
        ):
            have = f"0 to {count - 1}" if count > 1 else "0"
            raise UsageError(
                f"{name} has no node {part.strip()!r}",
                hint=f"--nodes: head, all, {have}, a list 0,2 or a range 1-3",
            )
        found.update(range(int(first), int(last) + 1))
    return sorted(found)
