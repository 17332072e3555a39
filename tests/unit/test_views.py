"""A plan in views: each small, found by its name, and of the plan that it was asked of."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest
from ways import WAYS, plan_of

from gemmgen import views

CLASSES = views.View.__subclasses__()
NAMES = ("geometry", "inputs", "launches", "packing", "promotion", "scales", "staging")


def test_a_view_is_of_its_plan():
    plan = plan_of()
    other = replace(plan, block=(128, 64, 32))
    for name in NAMES:
        view = getattr(plan, name)
        assert type(view) in CLASSES and view.plan is plan and getattr(other, name).plan is other and getattr(plan, name) is view
        assert [one.name for one in fields(view)] == ["plan"]
        with pytest.raises(FrozenInstanceError):
            view.plan = other
    assert {type(getattr(plan, name)) for name in NAMES} == {*CLASSES}
    assert other.geometry.warps_m == 2 * plan.geometry.warps_m


def test_numbers_of_views_by_hand():
    """Each beside one that differs in what decides it."""
    whole = {layout: plan_of(**WAYS["warpgroups, row scales of whole rows"] | {"layout": layout}).launches.whole_cluster for layout in ("nn", "nt", "tn", "tt")}
    assert whole == {"nn": 8, "nt": 1, "tn": 8, "tt": 8}  # blocks share an operand's columns where its k is not contiguous
    # Instructions of 16 k. The first design's sums move over by themselves where each instruction's is promoted; the other promotes them as any other interval.
    for plan, steps, stages in ((plan_of(), {16: 0, 32: 0, 64: 0}, {16: 0, 32: 1, 64: 2}),
                                (plan_of(**WAYS["warpgroups"]), {16: 1, 32: 2, 64: 0}, {16: 0, 32: 0, 64: 1, 128: 2})):
        assert {promote: replace(plan, promote=promote).promotion.promote_steps for promote in steps} == steps
        assert {promote: replace(plan, promote=promote).promotion.promote_stages for promote in stages} == stages
    spread = plan_of(**WAYS["packed words through registers, two buffers"]).staging
    assert (spread.places_a_step, spread.places_to_spread) == (3, 1)  # the first of two steps, half of whose places get loads
    assert replace(spread.plan, fragment_buffers=1).staging.places_to_spread == 3
    assert [plan_of(**WAYS[way]).staging.padding for way in ("wmma", "wmma, register")] == [16, 0]
    straight = plan_of(**WAYS["straight"]).staging
    assert straight.row_pitch == straight.row_bytes == 128, "where no padding is decided there is none"
    apart, alike = ["WORDS_A", "WORDS_B"], ["WORDS", "WORDS"]
    for way, names in {"warpgroups that take turns, integer words, fewer of A": apart, "warpgroups, integer words, fewer of B, slices": apart, "wmma": alike}.items():
        assert [plan_of(**WAYS[way]).packing.words_name(x) for x in "ab"] == names


def test_what_special_values_decide():
    """Elements of C that are not finite are computed again from A and B, or are left as the words have them."""
    plan, integers = plan_of(), plan_of(**WAYS["packed integers"])
    assert [replace(one, special=special).geometry.leaves_nan for one in (plan, integers) for special in ("exact", "fast")] == [False, False, False, True]
    for where, special, taken in (("prepass", "exact", True), ("prepass", "fast", False), ("shared", "exact", True), ("shared", "fast", True)):
        assert replace(plan, where=where, special=special).launches.takes_operands == taken
