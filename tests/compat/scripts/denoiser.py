"""A small U-Net with time embedding and cross attention, as diffusion models have it."""

import math

from tinygrad import Tensor, nn
from tinygrad.nn import Conv2d, GroupNorm, LayerNorm, Linear


def time_embedding(t, dim):
    freqs = (-math.log(10000) * Tensor.arange(dim // 2) / (dim // 2)).exp()
    return Tensor.cat((t * freqs).cos(), (t * freqs).sin()).reshape(1, -1)


class ResBlock:
    def __init__(self, channels, embedding, out):
        self.first = [GroupNorm(4, channels), Tensor.silu, Conv2d(channels, out, 3, padding=1)]
        self.time = [Tensor.silu, Linear(embedding, out)]
        self.second = [GroupNorm(4, out), Tensor.silu, lambda x: x, Conv2d(out, out, 3, padding=1)]
        self.skip = Conv2d(channels, out, 1) if channels != out else lambda x: x

    def __call__(self, x, time):
        h = x.sequential(self.first) + time.sequential(self.time).reshape(x.shape[0], -1, 1, 1)
        return self.skip(x) + h.sequential(self.second)


class CrossAttention:
    def __init__(self, query, context, heads, dim):
        self.to_q = Linear(query, heads * dim, bias=False)
        self.to_k = Linear(context, heads * dim, bias=False)
        self.to_v = Linear(context, heads * dim, bias=False)
        self.heads, self.dim, self.to_out = heads, dim, [Linear(heads * dim, query)]

    def __call__(self, x, context=None):
        context = x if context is None else context
        q, k, v = (
            y.reshape(x.shape[0], -1, self.heads, self.dim).transpose(1, 2)
            for y in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        found = q.scaled_dot_product_attention(k, v).transpose(1, 2)
        return found.reshape(x.shape[0], -1, self.heads * self.dim).sequential(self.to_out)


class Gated:
    def __init__(self, dim, out):
        self.proj = Linear(dim, out * 2)

    def __call__(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * gate.gelu()


class Transformer:
    def __init__(self, channels, context, heads, dim):
        self.norm, self.inner = GroupNorm(4, channels), Conv2d(channels, heads * dim, 1)
        self.own = CrossAttention(heads * dim, heads * dim, heads, dim)
        self.cross = CrossAttention(heads * dim, context, heads, dim)
        self.feed = [Gated(heads * dim, 4 * heads * dim), Linear(4 * heads * dim, heads * dim)]
        self.norms, self.outer = (
            [LayerNorm(heads * dim) for _ in range(3)],
            Conv2d(heads * dim, channels, 1),
        )

    def __call__(self, x, context):
        b, c, h, w = x.shape
        y = self.inner(self.norm(x)).reshape(b, c, h * w).permute(0, 2, 1)
        y = self.own(self.norms[0](y)) + y
        y = self.cross(self.norms[1](y), context) + y
        y = self.norms[2](y).sequential(self.feed) + y
        return self.outer(y.permute(0, 2, 1).reshape(b, c, h, w)) + x


class UNet:
    def __init__(self):
        self.time = [Linear(8, 32), Tensor.silu, Linear(32, 32)]
        self.enter, self.down = Conv2d(4, 8, 3, padding=1), Conv2d(8, 8, 3, stride=2, padding=1)
        self.left, self.bottom = ResBlock(8, 32, 8), ResBlock(8, 32, 16)
        self.attention, self.up = Transformer(8, 16, 2, 4), Conv2d(16, 16, 3, padding=1)
        self.right = ResBlock(24, 32, 8)
        self.leave = [GroupNorm(4, 8), Tensor.silu, Conv2d(8, 4, 3, padding=1)]

    def __call__(self, x, t, context):
        time = time_embedding(t, 8).sequential(self.time)
        h = self.attention(self.left(self.enter(x), time), context)
        m = self.bottom(self.down(h), time)
        b, c, py, px = m.shape
        m = m.reshape(b, c, py, 1, px, 1).expand(b, c, py, 2, px, 2).reshape(b, c, py * 2, px * 2)
        return self.right(self.up(m).cat(h, dim=1), time).sequential(self.leave)


model = UNet()
state = nn.state.get_state_dict(model)
for w in state.values():
    w.assign((((Tensor.arange(w.numel()) * 31 % 97) - 48) / 97 * 0.3).reshape(w.shape))
Tensor.realize(*state.values())
x = ((Tensor.arange(4 * 8 * 8) * 13 % 29 - 14) / 14).reshape(1, 4, 8, 8)
context = ((Tensor.arange(5 * 16) * 7 % 23 - 11) / 11).reshape(1, 5, 16)
for t in (981, 500, 1):
    x = x - 0.3 * model(x, Tensor([t]), context).realize()
print(len(state), [round(v, 3) for v in x.flatten()[:6].tolist()])
