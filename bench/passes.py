"""What do the passes before a main kernel cost? Each launch alone and all together, beside plain copies and rivals, in one race.

    python bench/passes.py specs/kernels/mixpert4_h200.toml ... [--sizes 1024,8192] [--against cublas-int8,cublas-sgemm] [--gpu h200]

Prints, for each size and spec, microseconds of the whole, of every launch by its role, and of the whole's TFLOP/s; of a pass also
GB/s of what it has to read and write (FP32 once, words once; a pass that only looks for maxima writes none), as a share of what
a device-to-device copy of 512 MB moves in the same race. A run lasts some seconds a size. Raises DeviceError without a CUDA GPU.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from gemmgen import road, timing
from gemmgen.spec import load
from gemmgen.timing import Contender

COPY_BYTES = 1 << 29


def copy() -> Contender:
    """One device-to-device copy of COPY_BYTES."""
    import cupy

    here, there = (cupy.zeros(COPY_BYTES, cupy.uint8) for _ in range(2))
    return Contender("copy", lambda index: there.data.copy_from_device_async(here.data, COPY_BYTES, cupy.cuda.get_current_stream()), judged=False)


def pass_bytes(plan, role: str, m: int, n: int, k: int) -> int:
    """Bytes that a pass cannot avoid to read and write."""
    outer = {"a": m, "b": n}
    words = 0 if role == "absmax" else plan.scheme.word_bytes
    return sum(outer[operand.name] * k * (4 + words * len(plan.words_of(operand.name))) for operand in plan.launches.split_before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--sizes", default="1024,4096,8192")
    parser.add_argument("--against", default="cublas-int8,cublas-sgemm")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slice-ms", type=float, default=8.0)
    parser.add_argument("--no-errors", action="store_true")
    parser.add_argument("--roles", default="absmax,split,gemm")
    options = parser.parse_args()

    built = {}
    for path in options.specs:
        spec = load(path)
        built[path.stem] = road.build(spec if spec.spec.target.gpu or not options.gpu else spec.on(options.gpu))
    sensors = timing.sensors_here()
    for size in (int(text) for text in options.sizes.split(",")):
        inputs = timing.Inputs((size, size, size))
        field = {"copy": copy()} | {name: timing.cublas(name, inputs) for name in options.against.split(",") if name}
        for name, one in built.items():
            parts = (one.plan, one.source, one.binary, inputs)
            field[name] = timing.generated(name, *parts)
            for launch in one.source.interface.launches:
                if launch.role in options.roles.split(","):
                    field[f"{name} {launch.role}"] = timing.generated(name, *parts, only=launch.role)
        errors = {}
        if not options.no_errors:
            reference = timing.Reference(inputs)
            errors = {name: reference.accuracy(one) for name, one in field.items() if name in built or one.judged and name.startswith("cublas")}
        timing.race(list(field.values()), rounds=options.rounds, slice_ms=options.slice_ms, warm_up=0.5, sensors=sensors)
        seconds = {name: statistics.median(one.seconds) for name, one in field.items()}
        rate = 2 * COPY_BYTES / seconds["copy"]
        print(f"-- {size}: copy {rate / 1e9:.0f} GB/s", flush=True)
        for name, taken in seconds.items():
            clocks = [sample.clock_mhz for sample in field[name].samples if getattr(sample, "clock_mhz", None)]
            told = f"{name:<44} {taken * 1e6:10.1f} us"
            role = name.rpartition(" ")[2]
            if role in ("absmax", "split") and name != role:
                moved = pass_bytes(built[name.rpartition(" ")[0]].plan, role, size, size, size) / taken
                told += f"  {moved / 1e9:7.0f} GB/s  {moved / rate:5.2f} of the copy's"
            elif name != "copy":
                told += f"  {2 * size**3 / taken / 1e12:7.1f} TFLOP/s"
            if clocks:
                told += f"  {statistics.median(clocks):.0f} MHz"
            if name in errors:
                told += f"  {errors[name]}"
            print(told, flush=True)
        del inputs, field
        timing.release_memory()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
