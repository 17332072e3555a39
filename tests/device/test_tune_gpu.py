"""The tuner on a GPU: built kernels, measured times, errors of what ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgen.workshop import tune
from gemmgen.workshop.apps import cholesky
from gemmgen.workshop.tune.on_gpu import gpu_here

pytestmark = pytest.mark.device


def perceptron():
    return tune.load_program(Path(__file__).resolve().parents[2] / "examples" / "perceptron.py", sizes={"batch": 256, "hidden": 384, "outputs": 128})


def tiled():
    return cholesky.make({"n": 1536, "tiles": 3}, "drawn", 0).program("cholesky", "three tiles")


@pytest.mark.parametrize("program", [perceptron, tiled])
def test_a_program_is_tuned_on_the_gpu(program):
    profile = tune.profile(program(), gpu=gpu_here(), device="cuda", levels=["half", "bf16x3", "ootomo"])
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
