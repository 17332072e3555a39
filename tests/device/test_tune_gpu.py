"""The tuner on a GPU: built kernels, measured times, errors of what ran."""

from __future__ import annotations

import pytest

from gemmgen.workshop import tune
from gemmgen.workshop.tune.on_gpu import gpu_here

pytestmark = pytest.mark.device


@pytest.mark.parametrize(("name", "sizes"), [
    ("mlp", {"batch": 256, "inputs": 512, "hidden": 384, "outputs": 128}), ("cholesky", {"n": 1536}),
])
def test_a_program_is_tuned_on_the_gpu(name, sizes):
    profile = tune.profile(tune.load_program(name, sizes=sizes), gpu=gpu_here(), device="cuda", levels=["half", "bf16x3", "ootomo"])
    found = profile.raced([profile.tuned(threshold) for threshold in (1e-2, 2e-5, 2e-6)])
    for tuned in found:
        assert tuned.error(tuned.choice) <= tuned.question.threshold
        assert tuned.seconds(tuned.choice) <= 1.1 * tuned.seconds(tuned.found.whole.choice)
        assert all(seconds > 0 for seconds in tuned.together.values()) and tuned.sgemm_seconds > 0
    assert found[-1].choice != found[0].choice
    simulated = tune.profile(profile.program, gpu=profile.gpu, device="model", levels=["half", "ootomo"])
    of = {level.name: at for at, level in enumerate(profile.levels)}
    for at, own in enumerate(simulated.alone):
        for level, error in zip(simulated.levels, own):
            assert 0.15 < error / profile.alone[at][of[level.name]] < 1.6
