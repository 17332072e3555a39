"""Write the files of specs/shapes: the products of a forward pass of transformers, by their public configurations, and those of a block LU.

    python bench/shapes.py transformers -o specs/shapes/transformers.toml
    python bench/shapes.py hpl -o specs/shapes/hpl.toml

A layer's products are those of its projections: queries, keys and values (as one product, where the model's code has it so), the
attention's output, and the feed-forward part; after the last layer the head. Attention itself is a batch of small products and not
among them. A weight is a product's share of the products of one pass; all passes weigh alike.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
    """A public configuration.

    Attributes:
        hidden, inner, layers, vocabulary: as config.json tells them; inner of the feed-forward part.
        keys: outputs of the projections of keys and of values, each: heads of them times their width.
        gated: whether the feed-forward part has two products on its way in.
        fused: whether queries, keys and values are one product.
    """

    name: str
    source: str
    hidden: int
    inner: int
    layers: int
    vocabulary: int
    keys: int
    gated: bool
    fused: bool


MODELS = (
    Model("BERT-large", "google-bert/bert-large-uncased", 1024, 4096, 24, 30522, 1024, False, False),
    Model("GPT-2 XL", "openai-community/gpt2-xl", 1600, 6400, 48, 50257, 1600, False, True),
    Model("ViT-L/16", "google/vit-large-patch16-224", 1024, 4096, 24, 1000, 1024, False, False),
    Model("Llama 2 7B", "meta-llama/Llama-2-7b", 4096, 11008, 32, 32000, 4096, True, False),
    Model("Llama 3 8B", "meta-llama/Meta-Llama-3-8B", 4096, 14336, 32, 128256, 1024, True, False),
    Model("Mistral 7B", "mistralai/Mistral-7B-v0.1", 4096, 14336, 32, 32000, 1024, True, False),
)
TOKENS = (1, 16, 128, 512, 2048, 8192)
LU = ((8192, 256), (16384, 512), (32768, 1024))


def products(model: Model, tokens: int) -> dict[tuple[int, int, int], tuple[float, str]]:
    """{(m, n, k): (how often in a pass, what it is)}."""
    hidden, inner, keys = model.hidden, model.inner, model.keys
    calls = [(3 * hidden, hidden, 1, "q, k, v")] if model.fused else [(hidden, hidden, 1, "q"), (keys, hidden, 2, "k, v")]
    calls += [(hidden, hidden, 1, "attention out"), (inner, hidden, 1 + model.gated, "feed-forward in"), (hidden, inner, 1, "feed-forward out")]
    found: dict[tuple[int, int, int], tuple[float, str]] = {}
    for n, k, times, what in calls:
        before, told = found.get((tokens, n, k), (0, ""))
        found[tokens, n, k] = (before + times * model.layers, f"{told}, {what}" if told else what)
    found[tokens, model.vocabulary, hidden] = (1, "head")
    return found


def transformers() -> str:
    """specs/shapes/transformers.toml."""
    lines = []
    for model in MODELS:
        for tokens in TOKENS:
            calls = products(model, tokens)
            total = sum(times for times, _ in calls.values())
            lines += [f'    [{m}, {n}, {k}, "nt", {times / total:.4f}, "{model.name}, {tokens} tokens: {what}"],' for (m, n, k), (times, what) in calls.items()]
    told = ", ".join(f"{model.name} ({model.source})" for model in MODELS)
    return _text(
        "transformers", "forward passes of six transformers, 1 to 8192 tokens at once",
        f"the models' public configurations (config.json on the Hugging Face hub): {told}; computed by bench/shapes.py. Activations are [tokens, inputs], "
        "weights are stored [outputs, inputs], so the layout is nt; a weight is the product's share of the products of a pass", lines,
    )


def lu() -> str:
    """specs/shapes/hpl.toml."""
    lines = []
    for n, block in LU:
        total = sum((n - at) ** 2 for at in range(block, n, block))
        lines += [f'    [{n - at}, {n - at}, {block}, "nn", {(n - at) ** 2 / total:.5f}, "LU of {n}, update {at // block}"],' for at in range(block, n, block)]
    return _text(
        "hpl", "trailing updates of block LU as HPL has them, on one GPU",
        "the right-looking block LU of HPL (Petitet, Whaley, Dongarra, Cleary: HPL, a portable implementation of the High-Performance Linpack "
        "Benchmark) on a grid of 1 x 1: after panel j the matrix that is left, of N - j NB rows and columns, is updated by a product with k = NB; computed by "
        "bench/shapes.py. Column-major C -= A B is the row-major product of the transposed, layout nn; a weight is the share of the multiply-adds", lines,
    )


def _text(name: str, title: str, source: str, lines: list[str]) -> str:
    head = f'name = "{name}"\ntitle = "{title}"\nsource = "{source}"\nshapes = [  # m, n, k, layout, weight, what it is\n'
    return head + "\n".join(lines) + "\n]\n"


FILES = {"transformers": transformers, "hpl": lu}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FILES)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.write_text(FILES[options.name]())
