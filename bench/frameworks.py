"""Unmodified models of torch under a library's mode, against plain torch in FP32 (cuBLAS SGEMM).

    python bench/frameworks.py FOLDER [--compile] [--width 4096] [--csv FILE]

FOLDER is what `gemmgen library` wrote, with shim = ["torch"]. The library is built there with cc where it is not yet. A 3-layer MLP and a layer of a
transformer run forward and backward: as they are, under `taking()`, and if asked for compiled by inductor and by the library's backend. Contenders
take turns in each round; a figure is the median over rounds, timed by CUDA events around a whole step, inputs rotating. Prints the ratio to plain torch first,
then seconds of GPU time, how many products were taken, and the distance of the gradients from those of FP64, relative in the Frobenius norm, over that of plain
torch. The last table has single products, [rows, width] by a Linear of width x width, several in one CUDA graph, and the host's time of a call outside of it.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LAYERS = 3
INPUTS = 3
"""As many sets of inputs take turns."""
GRAPH = 12
"""Calls of a single product that are timed as one."""


def opened(folder: Path) -> Any:
    """`<name>.torch` of a library's folder, compiled where it is not yet."""
    subprocess.run([sys.executable, "python/build_wheel.py"], cwd=folder, check=True)
    sys.path.insert(0, str(folder / "python"))
    return importlib.import_module(f"{json.loads((folder / 'manifest.json').read_text())['name']}.torch")


def mlp(width: int) -> torch.nn.Module:
    """With GELU: a ReLU's gradient jumps where a sign is lost in rounding, and errors would tell of nothing else."""
    import torch

    return torch.nn.Sequential(*(layer for _ in range(LAYERS) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())))


def block(width: int, heads: int) -> torch.nn.Module:
    """A layer of a transformer: four Linear, attention by two batched products, norms, GELU."""
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in self.qkv(self.first(x)).chunk(3, -1))
            x = x + self.out((torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2))
            return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))

    return Block()


def step(model: Callable[[torch.Tensor], torch.Tensor], parameters: list[torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of a loss."""
    import torch

    return list(torch.autograd.grad(model(x).square().mean(), parameters))


def distances(got: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    return [((one.double() - right).norm() / right.norm()).item() for one, right in zip(got, exact)]


def seconds(contenders: dict[str, Callable[[int], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each, which take turns."""
    import torch

    for contender in contenders.values():
        contender(0)
        contender(1)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, contender in contenders.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            contender(turn % INPUTS)
            end.record()
            end.synchronize()
            taken[name].append(begin.elapsed_time(end) / 1000)
    return {name: median(values) for name, values in taken.items()}


def raced(title: str, model: torch.nn.Module, inputs: list[torch.Tensor], own: Any, rounds: int, compiled: bool) -> list[dict[str, Any]]:
    """A row for each contender."""
    import torch

    parameters = list(model.parameters())
    mode, backend = own.taking(), own.Backend()

    def under(i: int) -> Any:
        with mode:
            return step(model, parameters, inputs[i])

    contenders = {
        "torch": lambda i: step(model, parameters, inputs[i]),
        "under taking()": under,
    }
    if compiled:
        plain, taking = torch.compile(model), torch.compile(model, backend=backend)
        contenders["torch.compile"] = lambda i: step(plain, parameters, inputs[i])
        contenders["torch.compile, own backend"] = lambda i: step(taking, parameters, inputs[i])
    grads = {name: contender(0) for name, contender in contenders.items()}
    counts = {"under taking()": mode.taken.taken.total(), "torch.compile, own backend": backend.taken.taken.total()}
    passed = {"under taking()": dict(mode.taken.passed), "torch.compile, own backend": dict(backend.taken.passed)}
    times = seconds(contenders, rounds)
    model.double()
    exact = step(model, list(model.parameters()), inputs[0].double())
    model.float()
    errors = {name: distances(found, exact) for name, found in grads.items()}
    for name, why in passed.items():
        if why:
            print(f"{title}, {name}, passed on: {why}")
    return [
        {
            "program": title, "how": name, "ratio": times["torch"] / times[name], "seconds": times[name], "taken": counts.get(name, 0),
            "worst_gradient": max(errors[name]), "over_torch": max(one / other for one, other in zip(errors[name], errors["torch"])),
        }
        for name in contenders
    ]


def captured(contender: Callable[[int], Any]) -> Callable[[int], Any]:
    """Several calls as one CUDA graph, so that the GPU does not wait for the host."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        contender(0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(GRAPH):
            contender(turn % INPUTS)
    return lambda i: graph.replay()


def products(own: Any, width: int, rounds: int) -> list[dict[str, Any]]:
    """[rows, width] by a Linear layer, plain, taken and packed."""
    import torch

    layer = torch.nn.Linear(width, width, bias=False).cuda()
    packed, mode = own.pack_linear(layer), own.taking(always=True)
    found: list[dict[str, Any]] = []
    with torch.no_grad():
        for rows in (64, 256, 1024, 4096):
            inputs = [torch.randn(rows, width, device="cuda") for _ in range(INPUTS)]

            def under(i: int, inputs: list[torch.Tensor] = inputs) -> Any:
                with mode:
                    return layer(inputs[i])

            contenders = {
                "torch": lambda i, inputs=inputs: layer(inputs[i]), "under taking()": under,
                "operator": lambda i, inputs=inputs: own.linear(inputs[i], layer.weight), "packed": lambda i, inputs=inputs: packed(inputs[i]),
            }
            times = {name: each / GRAPH for name, each in seconds({name: captured(one) for name, one in contenders.items()}, rounds).items()}
            host = {}
            for name, contender in contenders.items():
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for turn in range(20):
                    contender(turn % INPUTS)
                host[name] = (time.perf_counter() - begin) / 20
                torch.cuda.synchronize()
            found += [
                {
                    "program": f"{rows} x {width} x {width}", "how": name, "ratio": times["torch"] / times[name], "seconds": times[name],
                    "host_us": 1e6 * host[name],
                }
                for name in contenders
            ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="torch.compile's models, too")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    own, width = opened(given.folder.resolve()), given.width
    heads, tokens = max(1, width // 128), max(16, width // 4)
    rows = []
    inputs = [torch.randn(width, width, device="cuda") for _ in range(INPUTS)]
    rows += raced(f"MLP, {LAYERS} x {width}, batch {width}", mlp(width).cuda(), inputs, own, given.rounds, given.compile)
    inputs = [torch.randn(4, tokens, width, device="cuda") for _ in range(INPUTS)]
    rows += raced(f"transformer's layer, width {width}, 4 x {tokens} tokens", block(width, heads).cuda(), inputs, own, given.rounds, given.compile)
    singles = products(own, width, 2 * given.rounds)
    print("ratio   seconds  taken  worst gradient  over torch's  program")
    for row in rows:
        figures = f"{row['ratio']:5.2f} {row['seconds']:9.5f} {row['taken']:6} {row['worst_gradient']:15.2e} {row['over_torch']:13.2f}"
        print(f"{figures}  {row['program']}: {row['how']}")
    print("ratio   seconds  host, us  program")
    for row in singles:
        print(f"{row['ratio']:5.2f} {row['seconds']:9.6f} {row['host_us']:9.1f}  {row['program']}: {row['how']}")
    if given.csv:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["program", "how", "ratio", "seconds", "taken", "worst_gradient", "over_torch", "host_us"])
            writer.writeheader()
            writer.writerows(rows + singles)


if __name__ == "__main__":
    main()
