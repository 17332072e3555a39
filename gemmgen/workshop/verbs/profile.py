"""The verb `profile`: how precisely a matrix unit computes, by EGEMM-TC's workflow."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json
from gemmgen.cli.verb import DEVICE, Json, Quiet, verb
from gemmgen.errors import EXIT_FAILED, EXIT_OK, SpecError

DRAWS = 10_000


class ProfileDevice(StrEnum):
    cuda = "cuda"
    hip = "hip"
    emulator = "emulator"


@verb(
    DEVICE,
    "gemmgen gpu profile --device cuda",
    "gemmgen gpu profile --device emulator --gpu t4",
    "gemmgen gpu profile --device hip --only mfma_m16n16k16_f16 --draws 100000 --json",
    name="gpu profile", was={"profile": {}},
)
def profile(
    device: Annotated[ProfileDevice, typer.Option(help="The device; of the emulator, --gpu names the GPU.")],
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="The GPU that the emulator is; see gemmgen list gpus.")] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="FRAGMENT", help=(
        "The instruction, of FP16 words; see gemmgen list fragments. By default the one that wmma::mma_sync or its like stands for, else the first."))] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, max=1 << 20, help="Of each kind; the paper's number by default.")] = DRAWS,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure how precisely a matrix unit computes, as EGEMM-TC does.

    Random FP16 products on the device are compared bit for bit with what half
    and single precision give (d_HALF, d_FLOAT), as in the paper's figures 2
    and 3; then with more hypotheses, with accumulators, and over the whole
    instruction. Both verdicts are printed in words. The exit code is 1 where
    the unit is neither of the paper's two.
    """
    from gemmgen.workshop.bringup import instructions_of
    from gemmgen.workshop.bringup.egemm import suited
    from gemmgen.workshop.bringup.named import instruction
    from gemmgen.workshop.bringup.profiled import WORD, machine_for, profile_device

    machine = machine_for(device.value, gpu)
    fragment = instruction(only, machine.arch) if only else suited(instructions_of(machine.arch))
    if fragment is None or fragment.word != WORD or not fragment.on_matrix_unit or fragment.in_tensor_memory:
        raise SpecError("--only" if only else "--device", "has no instruction that can be profiled so", got=fragment.name if fragment else machine.arch,
                        needs="a matrix instruction of FP16 words whose sums lanes hold", remedy="gemmgen list fragments")
    progress = Progress("profile", quiet or as_json)
    found = profile_device(machine, fragment, draws, seed, progress.step)
    progress.clear()
    emit_json(found.as_dict()) if as_json else emit(found.as_text())
    printed = found.printed
    return EXIT_OK if printed.half_passes or printed.single_21 == printed.draws else EXIT_FAILED
