"""The emulator's mbarriers and shared memory by themselves: arrivals, bytes, parities, who may use one when, proxies, banks and descriptors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.emulate.core.banks import ConflictCounter, extra_wavefronts
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.ptx.banks import BANKS
from gemmgen.emulate.ptx.isa.mbarrier import _complete
from gemmgen.emulate.ptx.isa.wgmma import Descriptor
from gemmgen.emulate.ptx.mbarrier import MOST, Barriers
from gemmgen.emulate.ptx.memory import CtaMemory

HERE, BESIDE = 8, 1024 + 8  # the second CTA's memory begins at 1024


@pytest.fixture
def barriers():
    shared = SimpleNamespace(pitch=1024, describe=str, state=np.zeros((2, 2048), np.uint8))
    return Barriers(SimpleNamespace(shared=shared, cluster_phase=np.zeros(1, int), launch=SimpleNamespace(cluster=2), changes=0))


def warp(cta: int, *threads: int):
    return SimpleNamespace(cta=np.full(len(threads), cta), tid=np.array(threads))


def test_a_phase_ends_with_its_last_arrival_and_its_last_byte(barriers):
    barriers.init(HERE, 3, 0, 0)
    one = barriers.at(HERE)
    assert [barriers.arrive(HERE, 2), one.phase, barriers.arrive(HERE, 1), one.phase, one.pending, barriers.strip.changes] == [0, 0, 0, 1, 3, 1]
    barriers.arrive(HERE, 2)
    with pytest.raises(Fault, match="more arrivals"):
        barriers.arrive(HERE, 2)  # as many as a phase has, and more than are left of this one
    barriers.expect(HERE, 16)
    barriers.arrive(HERE, 1)
    barriers.come(HERE, 8)
    assert (one.phase, one.pending, one.tx) == (1, 0, 8)
    barriers.come(HERE, 8)
    assert (one.phase, one.pending, one.tx) == (2, 3, 0)
    barriers.come(HERE, 4)  # bytes may be there before they are expected
    barriers.arrive(HERE, 3)
    assert (one.phase, one.tx) == (2, -4)


def test_counts_end_where_the_hardwares_do(barriers):
    for count in (0, MOST + 1):
        with pytest.raises(Fault, match="so many arrivals"):
            barriers.init(HERE, count, 0, 0)
    barriers.init(HERE, MOST, 0, 0)
    barriers.expect(HERE, MOST)
    with pytest.raises(Fault, match="so many bytes"):
        barriers.expect(HERE, 1)
    with pytest.raises(Fault, match="where one is alive"):
        barriers.init(HERE, 1, 0, 0)
    barriers.init(HERE - 8, 1, 0, 0)
    barriers.init(HERE + 8, 1, 0, 0)
    taken = barriers.strip.shared.state[1].copy()
    barriers.invalidate(HERE)
    with pytest.raises(Fault, match="nothing has initialised"):
        barriers.arrive(HERE, 1)
    assert np.flatnonzero(barriers.strip.shared.state[1] != taken).tolist() == [*range(HERE, HERE + 8)]


def test_a_wait_is_for_the_phase_before_of_that_parity(barriers):
    barriers.init(HERE, 1, 0, 0)
    one = barriers.at(HERE)
    for phase, parities, numbers in ((0, [False, True], [False, False]), (1, [True, False], [True, False]), (2, [False, True], [True, True])):
        assert one.phase == phase
        assert [_complete(one, parity, True) for parity in (0, 1)] == parities
        assert [_complete(one, number, False) for number in (0, 1)] == numbers
        barriers.arrive(HERE, 1)
    with pytest.raises(Fault, match="neither 0 nor 1"):
        _complete(one, 2, True)


def test_others_use_a_barrier_after_its_makers_fence_and_a_barrier_of_the_cluster(barriers):
    barriers.init(HERE, 2, 0, 5)
    barriers.check_use(HERE, 0, "here")  # its own CTA's threads meet
    for fenced in ((1, 5), (0, 4, 6)):  # another CTA's thread of that number, other threads of that CTA
        barriers.fence(warp(*fenced), None)
        for cta, asynchronous in ((1, False), (0, True)):
            with pytest.raises(Fault, match="may not see that it was initialised"):
                barriers.check_use(HERE, cta, "here", asynchronous)
    barriers.fence(warp(0, 4, 5), np.array([False, True]))
    barriers.check_use(HERE, 0, "here", asynchronous=True)
    with pytest.raises(Fault, match="may not be initialised yet"):
        barriers.check_use(HERE, 1, "here")
    barriers.strip.cluster_phase[0] = 1
    assert barriers.check_use(HERE, 1, "there").place == "there"


def test_a_cta_ends_when_no_signal_is_under_way(barriers):
    for offset, cta in ((HERE, 0), (BESIDE, 1)):
        barriers.init(offset, 1, cta, 0)
        barriers.fence(warp(cta, 0), None)
    barriers.strip.cluster_phase[0] = 1
    one = barriers.check_use(HERE, 1, "there")
    barriers.arrive(HERE, 1)
    with pytest.raises(Fault, match="ends while"):
        barriers.check_end(0)
    barriers.check_end(1)  # nobody signals that one
    assert _complete(one, 0, True)  # phase 0 is over, and so is its signal
    barriers.check_end(0)
    barriers.check_use(HERE, 1, "there")  # in phase 1, which nobody has waited for
    with pytest.raises(Fault, match="ends while"):
        barriers.check_end(0)
    barriers.ordered([1])
    with pytest.raises(Fault, match="ends while"):
        barriers.check_end(0)
    barriers.ordered([0, 1])
    barriers.check_end(0)


def test_the_asynchronous_proxy_reads_what_its_writer_has_fenced():
    memory, places = CtaMemory(2, 64, proxies=True), np.array([0, 16, 64 + 16])
    memory.store(places, 16, np.zeros(3, np.complex128))
    memory.wrote(places, np.array([0, 5, 0]))
    for fenced, blocked in (((), {0, 1, 2}), (((0, 5),), {0, 2}), (((1, 5),), {0, 2}), (((1, 0),), {0}), (((0, 1),), {0}), (((0, 0),), set())):
        if fenced:
            memory.fence(*(np.array(each) for each in zip(*fenced, strict=True)))
        for number, place in enumerate(places):
            if number in blocked:
                with pytest.raises(Fault, match="an ordinary store wrote") as error:
                    memory.load_async(places[number : number + 1])
                assert f"written by thread {(0, 5, 0)[number]}" in error.value.got
            else:
                memory.load_async(places[number : number + 1])
    beside = np.array([0, 16, 32])
    memory.store(beside, 16, np.zeros(3, np.complex128))
    memory.wrote(beside, np.array([0, 5, 0]))
    memory.land_range(16, np.zeros(16, np.uint8))  # a bulk copy comes by the same proxy
    memory.load_async(beside[1:2])
    for other in (beside[:1], beside[2:]):
        with pytest.raises(Fault, match="an ordinary store wrote"):
            memory.load_async(other)
    CtaMemory(2, 64, proxies=False).fence(np.array([1]), np.array([0]))  # where nothing reads by that proxy a fence does nothing


def test_wavefronts_beyond_one_for_each_phase():
    lane = np.arange(32)
    for size, words, extra in (
        (4, lane, 0), (4, lane * 0, 0), (4, lane * 2, 1), (4, lane * 32, 31), (4, lane // 11 * 32, 2), (4, lane % 2 * 32 + lane // 2, 1), (1, lane // 4, 0), (2, lane // 2, 0),
        (8, lane * 2, 0), (8, lane * 4, 2), (8, lane * 32, 30), (16, lane * 4, 0), (16, lane * 8, 4), (16, lane * 32, 28), (16, lane % 8 * 4, 0),
    ):  # fmt: skip
        assert extra_wavefronts(words * 4, None, size, BANKS) == extra, (size, words)
    some = lane < 4
    assert extra_wavefronts(lane * 128, some, 4, BANKS) == 3 and extra_wavefronts(lane * 128, lane < 0, 4, BANKS) == 0


@pytest.mark.parametrize("same", [True, False], ids=["alike in all CTAs", "other in one"])
@pytest.mark.parametrize("masked", [False, True])
def test_conflicts_of_a_vector_are_those_of_its_warps(same, masked):
    """Two warps, three CTAs: one CTA stands for all where they are alike, and only there; where one takes no part each is counted."""
    lane = np.arange(32)[:, None]
    addresses = np.repeat(np.hstack([lane * 8, lane * 32]), 3, 1)
    active = np.repeat(np.hstack([lane < 20, lane % 3 > 0]), 3, 1) if masked else None
    if not same:
        addresses[:, 5] = lane[:, 0] * 128
    for _ in range(2):  # the second time from what is kept
        counter = ConflictCounter(3, BANKS)
        counter.count("here", addresses, active, 4)
        expected = sum(extra_wavefronts(addresses[:, at], None if active is None else active[:, at], 4, BANKS) for at in range(6))
        assert counter.extra == {"here": expected} and expected > 10
        counter.count("there", addresses[:, :-1], None if active is None else active[:, :-1], 4)
        last = extra_wavefronts(addresses[:, 5], None if active is None else active[:, 5], 4, BANKS)
        assert counter.extra["there"] == expected - last < expected


def test_descriptors_of_matrices():
    for mode, swizzle in ((0, 0), (1, 128), (2, 64), (3, 32)):
        got = Descriptor.decode(0x3FFF | 0x2FFE << 16 | 0x3001 << 32 | mode << 62)
        assert got == Descriptor(16 * 0x3FFF, 16 * 0x2FFE, 16 * 0x3001, swizzle)
    for bit in (49, 50, 51):
        with pytest.raises(Fault, match="base offset"):
            Descriptor.decode(1 << bit)
    rows = np.array([0, 1, 7, 8, 255])
    assert Descriptor(64, 128, 256, 0).addresses(rows, False)[:, 1].tolist() == [192, 208, 304, 448, 64 + 31 * 256 + 7 * 16 + 128]
    assert Descriptor(1024, 0, 1024, 128).addresses(rows, False)[:, 1].tolist() == [1040, 1024 + 128, 1024 + 7 * 128 + 6 * 16, 2064, 1024 * 32 + 7 * 128 + 6 * 16]
    assert Descriptor(512, 0, 512, 64).addresses(rows[:3], False)[:, 0].tolist() == [512, 576, 512 + 7 * 64 ^ 3 << 4]
    assert Descriptor(256, 0, 256, 32).addresses(rows[:3], False)[:, 0].tolist() == [256, 288, 256 + 7 * 32 ^ 1 << 4]
