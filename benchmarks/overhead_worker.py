"""One library's small realize and training step, asked by `overhead.py` through pipes."""

import importlib
import json
import os
import sys
import time
from typing import Any

# The kernels are small; threads that wait for work would count as processor time.
os.environ.update(OMP_NUM_THREADS="1")


def lazy_subjects(library: str) -> dict[str, Any]:
    """What tinylab and tinygrad run."""
    lib = importlib.import_module(library)
    nn = importlib.import_module(f"{library}.nn")
    a, b = lib.Tensor.rand(64, 64).realize(), lib.Tensor.rand(64, 64).realize()
    layers = nn.Linear(64, 64), nn.Linear(64, 10)
    optimizer = nn.optim.Adam([p for layer in layers for p in (layer.weight, layer.bias)])
    x, y = lib.Tensor.rand(32, 64).realize(), lib.Tensor.randint(32, high=10).realize()

    def step() -> None:
        with lib.Context(TRAINING=1):
            optimizer.zero_grad()
            loss = layers[1](layers[0](x).relu()).sparse_categorical_crossentropy(y)
            loss.backward()
            loss.realize(*optimizer.schedule_step())

    return {"realize": (lambda: (a + b).realize(), 200), "step": (step, 10)}


def torch_subjects() -> dict[str, Any]:
    """The same, eagerly."""
    import torch

    torch.set_num_threads(1)
    a, b = torch.rand(64, 64), torch.rand(64, 64)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.rand(32, 64), torch.randint(10, (32,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return {"realize": (lambda: a + b, 200), "step": (step, 10)}


def main(library: str) -> None:
    """Answer {"what": "step"} with the seconds of one, until the pipe is closed."""
    answers, sys.stdout = sys.stdout, sys.stderr
    subjects = torch_subjects() if library == "torch" else lazy_subjects(library)
    for line in sys.stdin:
        run, count = subjects[json.loads(line)["what"]]
        for _ in range(5):
            run()
        start = time.process_time()
        for _ in range(count):
            run()
        seconds = (time.process_time() - start) / count
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
