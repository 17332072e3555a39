"""Models of torch's own layers, whose products a library takes."""

from __future__ import annotations

import torch


class Block(torch.nn.Module):
    """A transformer's layer: four Linear, two batched products."""

    def __init__(self, width: int = 16, heads: int = 2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        x = x + self.out((torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))
