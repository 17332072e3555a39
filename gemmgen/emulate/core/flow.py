"""The order of basic blocks in which lanes that parted meet again.

Lanes of a warp that took different ways each keep their own position, and the
machine always runs the lanes that are furthest back. That joins them at the
earliest common point if, and only if, "further back" follows the program's
structure: a block comes after all that can lead to it, and the blocks of a
loop stand together before whatever follows the loop. The compiler's own order
does not promise this (unlikely blocks go last), so the blocks are sorted here
into a weak topological order (Bourdoncle), by nested strongly connected
components. With it, lanes that reach a barrier without the others of their
warp have truly diverged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def entry_first(successors: Sequence[Sequence[int]]) -> list[int]:
    """That order, with block 0 in front even where blocks that nothing reaches would sort before it."""
    order = weak_topological_order(successors)
    order.remove(0)
    return [0, *order]


def weak_topological_order(successors: Sequence[Sequence[int]]) -> list[int]:
    """The blocks in the order described above; block 0 is the entry.

    Args:
        successors: for each block, the blocks control may go to next.
    """
    order: list[int] = []

    def visit(nodes: Iterable[int]) -> None:
        for component in reversed(strong_components(nodes, successors)):
            if len(component) == 1:
                order.append(component[0])
                continue
            head = _head(component, successors)
            order.append(head)
            visit(node for node in component if node != head)

    visit(range(len(successors)))
    return order


def _head(component: list[int], successors: Sequence[Sequence[int]]) -> int:
    """Where a loop is entered: its first block that is reached from outside."""
    inside = set(component)
    entered = {0} & inside
    for node, following in enumerate(successors):
        if node not in inside:
            entered.update(inside.intersection(following))
    return min(entered or inside)


def strong_components(
    nodes: Iterable[int], successors: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Strongly connected components of the graph on `nodes`, last ones first
    (Tarjan's algorithm, without recursion)."""
    nodes = sorted(nodes)
    members = set(nodes)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    components: list[list[int]] = []
    for root in nodes:
        if root in number:
            continue
        work = [(root, iter(successors[root]))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            node, following = work[-1]
            for after in following:
                if after not in members:
                    continue
                if after not in number:
                    number[after] = low[after] = len(number)
                    path.append(after)
                    on_path.add(after)
                    work.append((after, iter(successors[after])))
                    break
                if after in on_path:
                    low[node] = min(low[node], number[after])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == number[node]:
                    cut = path.index(node)
                    components.append(sorted(path[cut:]))
                    on_path.difference_update(path[cut:])
                    del path[cut:]
    return components
