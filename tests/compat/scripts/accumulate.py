"""Gradients over several batches, two optimizers, a schedule, a checkpoint, older names."""

import math
import pathlib
import sys

from tinygrad import Context, Device, GlobalCounters, Tensor, TinyJit, dtypes, nn
from tinygrad.helpers import Timing, getenv, partition, prod, tqdm
from tinygrad.nn.optim import SGD, AdamW, OptimizerGroup
from tinygrad.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save


class Schedule:
    def __init__(self, optimizer, steps):
        self.optimizer, self.steps, self.base = optimizer, steps, optimizer.lr.item()
        self.step_number = Tensor([0])

    def step(self):
        self.step_number.assign(self.step_number + 1).realize()
        angle = (self.step_number / self.steps) * math.pi
        rate = 0.5 * self.base * (1 + angle.cos())
        self.optimizer.lr.assign(rate.cast(self.optimizer.lr.dtype)).realize()


class Model:
    def __init__(self):
        self.layers = [nn.Linear(8, 16), Tensor.gelu, nn.LayerNorm(16), nn.Linear(16, 1)]

    def __call__(self, x):
        return x.sequential(self.layers)


Tensor.manual_seed(0)
X = Tensor.randn(64, 8).realize()
Y = (X * Tensor.arange(8)).sum(1, keepdim=True).realize()
model = Model()
params = get_parameters(model)
matrices, vectors = partition(params, lambda p: p.ndim > 1)
group = OptimizerGroup(AdamW(matrices, lr=0.05), SGD(vectors, lr=0.01, momentum=0.9, nesterov=True))
schedule = Schedule(group[0], 20)


@TinyJit
def error():
    return (model(X) - Y).square().mean().realize()


before = error().item()
with Context(TRAINING=1), Timing("", enabled=False):
    for _ in tqdm(range(getenv("STEPS", 12)), disable=True):
        group.zero_grad()
        for n in range(0, 64, 16):
            ((model(X[n : n + 16]) - Y[n : n + 16]).square().mean() / 4).backward()
        norm = Tensor.stack(*[p.grad.square().sum() for p in params]).sum().sqrt()
        for p in params:
            p.grad = p.grad * (10 / (norm + 1e-6)).clip(max_=1.0)
        group.step()
        schedule.step()
GlobalCounters.reset()
after = error().item()
path = pathlib.Path(sys.argv[1]) / "model.safetensors"
safe_save(get_state_dict(model), str(path))
other = Model()
load_state_dict(other, safe_load(path), verbose=False)
same = all(
    (a.to(Device.DEFAULT) == b).all().item()
    for a, b in zip(get_parameters(other), params, strict=True)
)
count = sum(prod(p.shape) for p in params)
print(after < before, same, count, GlobalCounters.kernel_count > 0, X.dtype == dtypes.float32)
