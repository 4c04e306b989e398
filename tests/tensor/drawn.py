"""Random numbers that tinygrad 0.14 gives: which ones drawn.json holds, and how it came about.

DEV=CPU python tests/tensor/drawn.py      with tinygrad installed: writes drawn.json anew
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

KEPT = pathlib.Path(__file__).with_suffix(".json")
SEEDS = (0, 7, 2**32 - 1)
TWO = ("CPU", "CPU:1")
# What is more than bits out of a formula: logarithms, cosines, products and sums of floats.
ROUNDED = ("randn", "uniform(", "normal", "_uniform", "dropout")

DRAWS = """
rand(5)
rand()
rand(0)
rand(3, 3)
rand(2, 0, 3)
rand(129)
rand(5, dtype="float16")
rand(4, 3, dtype="float16")
rand(5, dtype="bfloat16")
rand(5, dtype="float64")
rand(9, dtype="fp8e4m3")
rand(9, dtype="fp8e5m2")
rand(5, contiguous=False)
rand(3, device="CPU:1")
rand(5).rand_like(dtype="float64")
randn(3)
randn(3, 3)
randn(0)
randn(5, dtype="float16")
randn(5, dtype="bfloat16")
randn(5, dtype="float64")
rand(5).randn_like()
randint(5)
randint(21, low=-300, high=300)
randint(5, low=-3, high=2**23 - 3)
randint(5, low=-5, high=250, dtype="uint8")
uniform(17, low=-3.3, high=5.7)
uniform(5, low=-3.3, high=5.7, dtype="float16")
uniform(5, low=-3.3, high=5.7, dtype="float64")
uniform(5, low=0, high=9, dtype="int32")
normal(5, mean=2, std=3)
normal(4, mean=1.3, std=2.7, dtype="float64")
scaled_uniform(5)
glorot_uniform(4, 3, 2, 2)
kaiming_uniform(4, 3, 2, 2, a=0.2)
kaiming_uniform(2, 3, dtype="float64")
kaiming_normal(4, 3, a=0.2)
randperm(7)
randperm(33, dtype="uint8")
randperm(0)
ones(9).contiguous().dropout(0.3)
ones(4, 5, dtype="float16").contiguous().dropout(0.75)
ones(4, 4).contiguous().shard(TWO).rand_like()
ones(4, 4).contiguous().shard(TWO).randn_like()
ones(4, 4).contiguous().shard(TWO, 0).rand_like()
ones(4, 4).contiguous().shard(TWO, 1).rand_like()
ones(4, 4).contiguous().shard(TWO, 1).randn_like()
ones(4, 4).contiguous().shard(TWO, 0).dropout(0.5)
eye(5).multinomial(1)
arange(1, 7).reshape(2, 3).float().multinomial(2)
arange(6).reshape(2, 3).float().multinomial(8, replacement=True)
arange(40).float().multinomial(30)
arange(40).float().multinomial(99, replacement=True)
empty(4, device="CPU:1").full_like(2).multinomial(6, replacement=True)
empty(4, device="CPU:1").full_like(2).multinomial(3)
""".strip().splitlines()


def draw(expression: str, seed: int, tensor: Any) -> list[Any]:
    """The shape and the values of one draw from a seed, and of three numbers drawn after it."""
    tensor.manual_seed(seed)
    found = eval(f"Tensor.{expression}", {"Tensor": tensor, "TWO": TWO})
    small = found.is_floating_point() and found.dtype.itemsize < 4
    values = found.float().numpy() if small else found.numpy()
    return [list(found.shape), values.reshape(-1).tolist(), tensor.rand(3).tolist()]


def draw_all(tensor: Any) -> dict[str, list[Any]]:
    """All draws from all seeds."""
    return {f"{seed}: {e}": draw(e, seed, tensor) for e in DRAWS for seed in SEEDS}


def draw_over_time(tensor: Any, jit: Any, reached: bool = True) -> dict[str, list[Any]]:
    """Draws of captured functions, on several devices, and across the ends of words.

    reached: whether another seed reaches captured functions; else what they draw then is drawn
    without them.
    """

    def draw() -> Any:
        return tensor.rand(3).realize()

    step = jit(draw)
    tensor.manual_seed(7)
    found = {"replays": [step().tolist() for _ in range(4)]}
    found["between replays"] = tensor.rand(3).tolist()
    found["replays after that"] = [step().tolist() for _ in range(2)]
    tensor.manual_seed(9)
    again = step if reached else draw
    found["replays after another seed"] = [again().tolist() for _ in range(2)]
    found["between those"] = tensor.rand(3).tolist()
    tensor.manual_seed(5)
    places = ("CPU:1", "CPU", "PYTHON", "CPU", "CPU:1")
    found["devices"] = [tensor.rand(2, device=d).tolist() for d in places]
    tensor.manual_seed(5)
    tensor.rand(2**32 - 2, contiguous=False)
    found["the counter's low word overflows"] = [tensor.rand(6).tolist() for _ in range(2)]
    key, counter = tensor([9, 7], dtype="uint32"), tensor([0, 0], dtype="uint32")
    for n in (2**32 - 1, 2**32, 2**33 + 3):
        found[f"the last of {n} words"] = tensor.random_bits(key, counter, n)[n - 4 :].tolist()
    for seed in (-1, 2**32 + 5):
        tensor.manual_seed(seed)
        found[f"seed {seed}"] = tensor.rand(3).tolist()
    return found


if __name__ == "__main__":
    from tinygrad import Tensor, TinyJit
    from tinygrad.helpers import Context

    with Context(TRAINING=1):
        kept = {"draws": draw_all(Tensor), "over time": draw_over_time(Tensor, TinyJit, False)}
    rows = ",\n".join(
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in part.items())
        + "\n }"
        for name, part in kept.items()
    )
    KEPT.write_text(f"{{\n{rows}\n}}\n")
