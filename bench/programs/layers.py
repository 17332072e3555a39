"""A perceptron of three layers and a transformer block, forward and backward, in torch: milliseconds, and the largest error of a gradient against FP64.

    python bench/programs/layers.py [judge]
"""

import copy, json, sys
import torch

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False

class Block(torch.nn.Module):
    def __init__(self, width=4096, heads=32):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)])
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * (w // self.heads) ** -0.5, -1)
        x = x + self.out(torch.matmul(scores, v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))

def layers(width=4096):
    # Not ReLU: a sign that rounding turns moves a gradient by far more than the rounding did.
    return torch.nn.Sequential(*(one for _ in range(2) for one in (torch.nn.Linear(width, width), torch.nn.GELU())), torch.nn.Linear(width, width))

def gradients(model, x, y):
    model.zero_grad(set_to_none=True)
    ((model(x) - y) ** 2).mean().backward()
    return [one.grad for one in model.parameters()]

def error(model, x, y):
    mine = [one.double() for one in gradients(model, x, y)]
    exact = gradients(copy.deepcopy(model).double(), x.double(), y.double())
    return max(float((a - b).norm() / b.norm()) for a, b in zip(mine, exact))

for name, model, shape in (("torch: 3 layers", layers(), (4096, 4096)), ("torch: transformer block", Block(), (4, 1024, 4096))):
    model = model.cuda()
    x, y = torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda")
    times = []
    for repeat in range(13):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        gradients(model, x, y)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    print(json.dumps({"name": name, "ms": sorted(times[3:])[5], "error": error(model, x, y) if "judge" in sys.argv else None}), flush=True)
    del model, x, y
    torch.cuda.empty_cache()
