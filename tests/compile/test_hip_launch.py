"""What the driver of AMD GPUs hands to the runtime for a compiled kernel: held against the code object's own
account of where each argument lies."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from fake_hip import FakeHip, install

from gemmgen.build import build
from gemmgen.render import render
from gemmgen.run import gemm, hip
from gemmgen.solve import solve
from gemmgen.spec import loads

FORMATS = {"pointer": "<Q", "int": "<i", "long long": "<q", "float": "<f"}


@pytest.fixture(scope="module", params=["ootomo", "scaled"])
def kernel(request):
    plan = solve(loads({
        "split": {"scheme": request.param, "promote": 64}, "target": {"gpu": "mi210"},
        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "build": {"allow_spills": True},
    }))
    source = render(plan)
    return plan, source, build(source)


def test_every_launch_is_as_the_source_says_and_packed_as_the_code_object_wants(kernel, monkeypatch):
    plan, source, binary = kernel
    seen = []
    fake = install(monkeypatch, FakeHip(execute=lambda fake, launched: seen.append({
        address: content.size for address, content in fake.memory.items()
    })))
    m, n, k, alpha, beta = 67, 41, 101, -0.5, 2.0
    device = hip.HipDevice(binary)
    a, b, c = (np.ones(shape, np.float32) for shape in ((m, k), (k, n), (m, n)))
    result = gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta)

    assert [launched.symbol for launched in fake.launches] == [launch.symbol for launch in source.launches]
    scalars = {"m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n, "alpha": alpha, "beta": beta}
    addresses: dict[str, int] = {}
    for launch, launched, memory in zip(source.launches, fake.launches, seen, strict=True):
        assert (launched.blocks, launched.threads) == (launch.blocks(source.interface.extents(m, n, k)), launch.threads)
        assert launched.shared_bytes == 0, "LDS is declared with its size"
        for parameter, argument in zip(launch.parameters, launched.kernel.arguments, strict=True):
            name, kind = parameter.name, parameter.kind
            assert argument.size == struct.calcsize(FORMATS[kind]), f"{launch.symbol}: {name}"
            assert argument.kind == ("global_buffer" if kind == "pointer" else "by_value")
            [value] = struct.unpack_from(FORMATS[kind], launched.kernarg, argument.offset)
            if kind == "pointer":
                assert value in memory, f"{name} points at no allocation"
                assert addresses.setdefault(name, value) == value, "kernels share a buffer by its name"
            else:
                assert value == scalars[name], f"{launch.symbol}: {name}"
    assert len(set(addresses.values())) == len(addresses)
    sizes = {name: seen[0][address] for name, address in addresses.items()}
    lengths = source.interface.workspace(m, n, k).lengths
    assert (sizes["a_words"], sizes["b_words"]) == (lengths["a_words"], lengths["b_words"])
    assert sizes["repaired"] == 8
    assert result.seconds == pytest.approx(0.5e-3 * len(source.launches))
    assert (result.c == 1).all() and set(result.status.values()) == {0}, "memory that no kernel wrote is as it was"
    assert not fake.memory, "everything is given back"


def test_a_dropped_or_swapped_argument_would_be_noticed(kernel, monkeypatch):
    """The double can fail: it reads as many values as the code object has arguments, of their sizes."""
    plan, source, binary = kernel
    fake = install(monkeypatch, FakeHip())
    device = hip.HipDevice(binary)
    launch = source.launches[-1]
    buffer = device.zeros(64, "x")
    args = [(one.kind, buffer if one.pointer else 3) for one in launch.parameters]
    device.launch(launch.symbol, 1, launch.threads, 0, args)
    swapped = [args[-1], *args[1:-1], args[0]]
    swapped[launch.params.index("m")] = ("int", 4)
    device.launch(launch.symbol, 1, launch.threads, 0, swapped)
    first, second = (launched.kernarg for launched in fake.launches)
    at = fake.launches[0].kernel.arguments[launch.params.index("m")]
    different = [i for i in range(len(first)) if first[i] != second[i]]
    assert different == [at.offset]
    with pytest.raises(AssertionError):
        device.launch(launch.symbol, 1, launch.threads + 1, 0, args)
