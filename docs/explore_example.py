"""A study from start to frontier: its space, its trials, what is as fast and as accurate as nothing else.

    python docs/explore_example.py [STORE]

It needs no GPU: kernels are judged on the emulator and ranked by the model. On a machine with a GPU name it under `gpus`, drop `emulate`, and the
times are measured.
"""

from __future__ import annotations

import sys
import tempfile

from gemmgen.workshop import explore
from gemmgen.workshop.explore.store import Store

STUDY = {
    "study": {"name": "example", "gpus": ["a100"], "sizes": [[64, 64, 128]], "trials": 4, "emulate": True},
    "space": {
        "split": {"scheme": ["half", "ootomo"]},
        "tile": {"block": [[32, 32, 32], [64, 32, 32]], "warp": [32, 32, 32], "group": 1, "split_k": 1},
        "pipeline": {"stages": 2, "loads": "async", "fragment_buffers": 1},
    },
}


def main(place: str) -> None:
    study = explore.study(STUDY)
    space = study.candidates()
    print(f"{space.count} candidates, {len(space)} of them feasible:")
    for label, count in space.rejected.items():
        print(f"  {count:>4} rejected by {label}")
    print("first by the model:", space.plan(int(space.order[0])).summary)

    progress = study.run(place)
    print(f"{progress.done} tried, {progress.kept} of them before: {dict(progress.verdicts)}")

    # A time that was measured comes before one that is predicted.
    rows = [row for row in Store(place).rows("kind = 'kernel'") if row.verdict in ("timed", "right") and row.error is not None]
    rows.sort(key=lambda row: (row.seconds or row.predicted_seconds, row.error))
    least = float("inf")
    print("frontier of error against time:")
    for row in rows:
        if row.error < least:
            least = row.error
            print(f"  {row.kernel}: {1e6 * (row.seconds or row.predicted_seconds):.2f} us{'' if row.seconds else ' predicted'}, error {row.error:.1e}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
