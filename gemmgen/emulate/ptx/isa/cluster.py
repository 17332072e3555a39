"""Clusters, and what warps of a CTA share besides memory: registers."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.core.memory import SHARED_WINDOW, Fault
from gemmgen.emulate.ptx.decode import DTYPES, Cursor, instruction
from gemmgen.emulate.ptx.isa.integer import U32
from gemmgen.emulate.ptx.isa.memory import CTA_WINDOW


@instruction("mapa")
def map_address(cursor: Cursor):
    """The address, valid in the whole cluster, of the same place in the CTA of a given rank."""
    shared = cursor.flag("shared::cluster")
    type_ = cursor.choice("u32", "u64")
    cursor.count(3)
    target, address, rank = cursor.target(0), cursor.source(1, type_), cursor.source(2, "u32")
    dtype = DTYPES[type_]
    base = 0 if shared else SHARED_WINDOW

    def run(warp, mask):
        ranks = warp.full(rank, U32)
        wrong = ranks >= warp.strip.launch.cluster
        if mask is not None:
            wrong &= mask
        if wrong.any():
            lane = int(np.argmax(wrong))
            raise Fault(
                "mapa names a CTA that is not in the cluster",
                lane=lane,
                got=f"rank {ranks[lane]}",
                needs=f"a rank below {warp.strip.launch.cluster}",
            )
        within = (warp.full(address, dtype) - dtype.type(base)) % dtype.type(CTA_WINDOW) + dtype.type(base)
        warp.put(target, within + (ranks + np.uint32(1)).astype(dtype) * dtype.type(CTA_WINDOW), mask)

    return run


@instruction("getctarank")
def rank_of_address(cursor: Cursor):
    shared = cursor.flag("shared::cluster")
    type_ = cursor.choice("u32", "u64")
    cursor.count(2)
    target, address = cursor.target(0), cursor.source(1, type_)
    dtype = DTYPES[type_]

    def run(warp, mask):
        within = warp.full(address, dtype) - dtype.type(0 if shared else SHARED_WINDOW)
        window = (within // dtype.type(CTA_WINDOW)).astype(np.int64)
        x = warp.strip.cta_ids[0][warp.cta] % warp.strip.launch.cluster
        warp.put(target, np.where(window == 0, x, window - 1).astype(np.uint32), mask)

    return run


def cluster_barrier(cursor: Cursor):
    """`barrier.cluster.arrive` and `.wait`."""
    action = cursor.choice("arrive", "wait")
    cursor.drop("release", "acquire", "relaxed", "aligned")
    cursor.count(0)
    return _arrive if action == "arrive" else _wait


def _arrive(warp, mask) -> None:
    chosen = np.ones(warp.lanes, bool) if mask is None else mask
    if (twice := chosen & (warp.cluster_arrivals != warp.cluster_waits)).any():
        lane = int(np.argmax(twice))
        raise Fault("a thread arrives at the cluster's barrier twice", lane=lane, needs="a wait between")
    warp.cluster_arrivals[chosen] += 1
    warp.strip.open_cluster_barriers()


def _wait(warp, mask) -> np.ndarray | None:
    chosen = np.ones(warp.lanes, bool) if mask is None else mask
    if (early := chosen & (warp.cluster_arrivals == warp.cluster_waits)).any():
        raise Fault(
            "a thread waits at the cluster's barrier where it has not arrived",
            lane=int(np.argmax(early)),
            needs="barrier.cluster.arrive first",
        )
    warp.strip.open_cluster_barriers()
    open_ = warp.strip.cluster_phase[warp.cta // warp.strip.launch.cluster] >= warp.cluster_arrivals
    passed = chosen & open_
    warp.cluster_waits[passed] += 1
    return None if passed[chosen].all() else passed


@instruction("setmaxnreg")
def set_registers(cursor: Cursor):
    """Registers move between the warpgroups of a CTA: `inc` waits until others gave enough back."""
    action = cursor.choice("inc", "dec")
    cursor.choice("sync")
    cursor.choice("aligned")
    cursor.choice("u32")
    cursor.count(1)
    number = cursor.constant(0)
    if number % 8 or not 24 <= number <= 256:
        cursor.refuse("a thread cannot have so many registers", needs="a multiple of 8 from 24 to 256")

    def run(warp, mask):
        columns = warp.whole(mask, "setmaxnreg")
        chosen = np.arange(warp.columns) if columns is None else np.flatnonzero(columns)
        strip, passed = warp.strip, np.zeros(warp.columns, bool)
        for column in chosen:
            have, cta = int(warp.registers[column]), int(warp.cta[column])
            if (number < have) if action == "inc" else (number > have):
                raise Fault(
                    f"setmaxnreg.{action} to {'fewer' if action == 'inc' else 'more'} registers than the thread has",
                    lane=int(column),
                    got=f"{number} of {have}",
                )
            if action == "inc" and strip.free_registers(cta) < 32 * (number - have):
                continue
            warp.registers[column] = number
            warp.adjusted[column] += (number,)
            passed[column] = True
            strip.changes += action == "dec"
        if action == "inc" and not passed[chosen].all():
            return np.tile(passed, 32)
        return None

    return run


@instruction("griddepcontrol")
def dependent_launch(cursor: Cursor):
    """The kernel before this one is over when this one begins; which threads may rely on it, `Order` knows."""
    if cursor.choice("wait", "launch_dependents") == "wait":
        return lambda warp, mask: warp.strip.order.wait_for_previous(warp, mask)
    return lambda warp, mask: None
