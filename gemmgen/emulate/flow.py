"""Basic blocks, laid out so that lanes that parted meet again.

Lanes of a warp that took different ways each keep their own position, and the
machine always runs the lanes that are furthest back. That joins them at the
earliest common point if, and only if, "further back" follows the program's
structure: a block comes after all that can lead to it, and the blocks of a
loop stand together before whatever follows the loop. The compiler's own order
does not promise this (unlikely blocks go last), so the blocks are sorted here:
a weak topological order, found by nested strongly connected components. With
it, lanes that reach a barrier without the others of their warp have truly
diverged.
"""

from __future__ import annotations

from collections.abc import Sequence


def weak_topological_order(successors: Sequence[Sequence[int]], entry: int = 0) -> list[int]:
    """Blocks reachable from `entry` in the order described above.

    Args:
        successors: for each block, the blocks control may go to next.
    """
    reachable, stack = {entry}, [entry]
    while stack:
        for following in successors[stack.pop()]:
            if following not in reachable:
                reachable.add(following)
                stack.append(following)
    order: list[int] = []
    work = [(reachable, entry)]  # a stack of (blocks, the one to start from)
    while work:
        nodes, start = work.pop()
        components = _components(nodes, start, successors)
        if len(components) == 1 and len(components[0]) > 1:  # one loop: its head, then its body
            head, body = start, components[0] - {start}
            order.append(head)
            inside = [block for block in successors[head] if block in body]
            # the body may fall into parts that only the head connects
            covered: set[int] = set()
            pieces = []
            for block in inside:
                if block not in covered:
                    piece = _reach(block, body - covered, successors)
                    covered |= piece
                    pieces.append((piece, block))
            work.extend(_sorted_pieces(pieces, body, successors))
        else:
            for component in reversed(components):  # pushed last is worked first
                if len(component) == 1:
                    work.append((component, next(iter(component))))
                else:
                    work.append((component, _loop_head(component, nodes, start, successors)))
            if len(components) == 1:
                order.append(work.pop()[1])
    return order
