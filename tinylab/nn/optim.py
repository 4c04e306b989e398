"""Optimizers: steps that move parameters against their gradients, written as assigns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinylab.dtype import dtypes
from tinylab.errors import OperandError, OptimizerError
from tinylab.helpers.arguments import explained, explained_class
from tinylab.helpers.context import CONST_LR, FUSE_OPTIM, TRAINING
from tinylab.helpers.seq import dedup
from tinylab.tensor import Tensor, realize_all


@explained_class
class Optimizer:
    """What all optimizers share: parameters, a rate, and the step that realizes both.

    params: float tensors; they are marked by `is_param_`. lr: the rate, kept in a tensor.
    fused: the state of all parameters of a type and device lies in one flat tensor.

    Raises: OptimizerError for no parameters or a negative rate.
    """

    def __init__(
        self, params: list[Tensor], lr: float, device: Any = None, fused: Any = FUSE_OPTIM
    ) -> None:
        if isinstance(lr, (int, float)) and not lr >= 0:
            raise OptimizerError(f"Invalid learning rate: {lr}", help="give 0 or more")
        given: Any = params
        wrong = given if isinstance(given, Tensor) else None
        wrong = next((p for p in params if not isinstance(p, Tensor)), wrong)
        if wrong is not None:
            raise OptimizerError(
                f"the parameters are a list of tensors, not {wrong!r}",
                help="nn.state.get_parameters(model) lists a model's",
            )
        # What a layer keeps but does not learn (running statistics) is marked as no parameter.
        # It is computed with each step, as its updates wait in the layer until somebody looks.
        self.params: list[Tensor] = [p for p in dedup(params) if p.is_param is not False]
        if not self.params:
            raise OptimizerError("optimizer must have at least one param")
        for p in self.params:
            if p.dtype.kind != "float":
                raise OptimizerError(f"a parameter of {p.dtype} has no gradient", help="use floats")
            p.is_param_()
        self.device = device or self.params[0].device
        self.buffers: list[Tensor] = [p for p in dedup(params) if p.is_param is False]
        self.fused = bool(fused)
        self.packs = _packs(self.params) if self.fused else [[i] for i in range(len(self.params))]
        dtype = _rate_dtype(self.params)
        self.lr = (
            Tensor.const(float(lr), dtype).reshape(1)
            if CONST_LR
            else Tensor([float(lr)], device=self.device, dtype=dtype)
        )

    def _state(self) -> list[Tensor]:
        """Zeros for each parameter, or for each pack of them; cut as those are."""
        return [p.zeros_like(dtype=_state_dtype(p)) for p in self._packed(self.params)]

    def _packed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """One flat tensor for each pack of several parameters; the others as they are."""
        if not self.fused:
            return list(tensors)
        several = [[tensors[i].flatten() for i in pack] for pack in self.packs]
        return [
            flat[0].cat(*flat[1:]) if len(flat) > 1 else tensors[pack[0]]
            for flat, pack in zip(several, self.packs, strict=True)
        ]

    def _unpacked(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What belongs to each parameter, in its shape."""
        found: dict[int, Tensor] = {}
        for pack, flat in zip(self.packs, tensors, strict=True):
            begin = 0
            for i in pack:
                shape, size = self.params[i].shape, self.params[i].numel()
                found[i] = flat if len(pack) == 1 else flat[begin : begin + size].reshape(shape)
                begin += size
        return [found[i] for i in range(len(self.params))]

    def _length(self, i: int, t: Tensor) -> Tensor:
        """The length of a tensor as a vector; in a pack, of the part that an element is in."""
        pack = self.packs[i]
        if len(pack) == 1:
            return t.square().sum().sqrt()
        sizes, begin, parts = [self.params[j].numel() for j in pack], 0, []
        for size in sizes:
            part = t[begin : begin + size].square().sum(keepdim=True).sqrt()
            parts.append(part.expand(size))
            begin += size
        return parts[0].cat(*parts[1:])

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.params:
            p.grad = None

    def step(self) -> None:
        """Move all parameters, and compute the result.

        Raises: OptimizerError while TRAINING is 0.
        """
        realize_all(self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Move all parameters; what must be computed for it.

        Raises: OptimizerError while TRAINING is 0, or for a parameter without a gradient.
        """
        if not TRAINING.value:
            raise OptimizerError(
                f"TRAINING={TRAINING.value}, TRAINING must be enabled to use the optimizer.",
                help="wrap the step: with Context(TRAINING=1): ...",
            )
        missing = [i for i, p in enumerate(self.params) if p.grad is None]
        if missing:
            raise OptimizerError(
                f"parameter {missing[0]} of {len(self.params)} has no gradient, "
                f"shape {self.params[missing[0]].shape}",
                help="call .backward() first, and leave out what the loss does not use",
            )
        grads = [p.grad for p in self.params if p.grad is not None]
        updates, extra = self._step(self._packed(self.params), self._packed(grads))
        for p, update in zip(self.params, self._unpacked(updates), strict=True):
            p.assign(self._moved(p, update))
        return [*extra, *self.params, *self.buffers]

    def _moved(self, p: Tensor, update: Tensor) -> Tensor:
        """The parameter after its update, rounded once."""
        wide = p.detach().cast(_state_dtype(p))
        return (wide - update.cast(wide.dtype)).cast(p.dtype)

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(what to take from each parameter, tensors to compute besides)."""
        raise NotImplementedError(f"{type(self).__name__}._step")


def _packs(params: Sequence[Tensor]) -> list[list[int]]:
    """The parameters that can lie in one flat tensor: of one type, on one device."""
    found: dict[Any, list[int]] = {}
    for i, p in enumerate(params):
        alone = isinstance(p.device, tuple)  # cut or copied, each in its own way
        found.setdefault(i if alone else (p.dtype, p.device), []).append(i)
    return list(found.values())


def _rate_dtype(params: Sequence[Tensor]) -> Any:
    return dtypes.float64 if params[0].dtype is dtypes.float64 else dtypes.float32


def _state_dtype(p: Tensor) -> Any:
    """Small floats keep their state in float32."""
    return p.dtype if p.dtype.itemsize >= 4 else dtypes.float32


@explained
def clip_grad_norm_(params: Sequence[Tensor], max_norm: float) -> Tensor:
    """Shorten all gradients together, so that their length is at most max_norm; returns it.

    Raises: OptimizerError where no parameter has a gradient.
    """
    grads = _gradients(params)
    place = grads[0].device
    total = sum((g.float().square().sum().to(place) for g in grads), Tensor(0.0)).sqrt()
    factor = (max_norm / (total + 1e-6)).minimum(1.0)
    for p, g in zip((p for p in params if p.grad is not None), grads, strict=True):
        p.grad = (g * factor.to(g.device)).cast(g.dtype)
    return total


@explained
def clip_grad_value_(params: Sequence[Tensor], clip_value: float) -> None:
    """Move each element of the gradients into [-clip_value, clip_value].

    Raises: OptimizerError where no parameter has a gradient.
    """
    grads = _gradients(params)
    for p, g in zip((p for p in params if p.grad is not None), grads, strict=True):
        p.grad = g.clip(-clip_value, clip_value)


def _gradients(params: Sequence[Tensor]) -> list[Tensor]:
    found = [p.grad for p in params if p.grad is not None]
    if not found:
        raise OptimizerError("no parameter has a gradient to clip", help="call .backward() first")
    return found


@explained_class
class OptimizerGroup(Optimizer):
    """Several optimizers that step together."""

    def __init__(self, *optimizers: Optimizer) -> None:
        if not all(isinstance(o, Optimizer) for o in optimizers):
            raise OperandError(f"OptimizerGroup steps optimizers together, not {optimizers}")
        self.optimizers = optimizers
        self.params = [p for o in optimizers for p in o.params]
        self.buffers = [b for o in optimizers for b in o.buffers]

    def __getitem__(self, i: int) -> Optimizer:
        return self.optimizers[i]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for o in self.optimizers:
            o.zero_grad()

    def schedule_step(self) -> list[Tensor]:
        """Move the parameters of all; what must be computed for it."""
        return [x for o in self.optimizers for x in o.schedule_step()]


@explained_class
class LARS(Optimizer):
    """Momentum with a rate for each layer; the common ground of SGD and Muon.

    tcoef=0 leaves the rate the same for all. classic: what is kept as momentum was multiplied by
    the rate, so a new rate leaves the steps before as they were; otherwise the rate comes last.
    pre_wd: the decay is part of the gradient; otherwise it goes by the rate alone, apart from
    momentum. ns_steps: make the update orthogonal by so many steps (Muon).

    Source: You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks", 2017.
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        ns_steps: int = 0,
        ns_coefficients: Any = None,
        nesterov: bool = False,
        classic: bool = True,
        pre_wd: bool = True,
        tcoef: float = 0.001,
        device: Any = None,
        fused: Any = FUSE_OPTIM,
    ) -> None:
        if fused and ns_steps:
            raise OptimizerError("FUSE_OPTIM is not allowed for Muon", help="pass fused=False")
        super().__init__(params, lr, device, fused)
        self.momentum, self.wd, self.nesterov, self.classic = (
            momentum,
            weight_decay,
            nesterov,
            classic,
        )
        self.ns_steps, self.ns_coefficients = ns_steps, ns_coefficients
        self.pre_wd, self.tcoef = pre_wd, tcoef
        self.b = self._state() if momentum else []
        self.buffers += self.b

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        updates = [
            self._update(i, p, g) for i, (p, g) in enumerate(zip(params, grads, strict=True))
        ]
        return updates, []

    def _update(self, i: int, p: Tensor, grad: Tensor) -> Tensor:
        wide = _state_dtype(p)
        t, g = p.detach().cast(wide), grad.cast(wide)
        rate = self.lr.to(p.device).cast(wide)
        pace = rate * self._trust(i, t, g) if self.tcoef else rate
        if self.pre_wd and self.wd:
            g = g + t * self.wd
        if self.classic:
            g = g * pace
        if self.momentum:
            self.b[i].assign(self.b[i] * self.momentum + g)
            g = g + self.b[i] * self.momentum if self.nesterov else self.b[i]
        if self.ns_steps:
            shape = g.shape
            flat = g.reshape(shape[0], -1).newton_schulz(self.ns_steps, self.ns_coefficients)
            g = flat.reshape(shape)
        if not self.classic:
            g = g * pace
        return g if self.pre_wd or not self.wd else g + t * rate * self.wd

    def _trust(self, i: int, t: Tensor, g: Tensor) -> Tensor:
        """How far this layer may go: its size over its gradient's."""
        size, slope = self._length(i, t), self._length(i, g)
        ratio = size * self.tcoef / (slope + size * self.wd)
        return (size > 0).where((slope > 0).where(ratio, 1.0), 1.0)


@explained
def SGD(
    params: list[Tensor],
    lr: float = 0.001,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    classic: bool = False,
    device: Any = None,
    fused: Any = FUSE_OPTIM,
) -> LARS:
    """Stochastic gradient descent with momentum and weight decay.

    classic: momentum is kept with the rate of its step; otherwise without, as in PyTorch.
    """
    return LARS(
        params,
        lr,
        momentum,
        weight_decay,
        0,
        None,
        nesterov,
        classic=classic,
        pre_wd=True,
        tcoef=0.0,
        device=device,
        fused=fused,
    )


@explained
def Muon(
    params: list[Tensor],
    lr: float = 0.001,
    momentum: float = 0.95,
    weight_decay: float = 0.1,
    ns_steps: int = 5,
    ns_coefficients: tuple[float, ...] = (3.4445, -4.775, 2.0315),
    nesterov: bool = True,
    device: Any = None,
    fused: Any = FUSE_OPTIM,
) -> LARS:
    """Momentum whose update is made orthogonal; for parameters with two or more axes.

    Raises: OptimizerError when fused.
    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    """
    return LARS(
        params,
        lr,
        momentum,
        weight_decay,
        ns_steps,
        ns_coefficients,
        nesterov,
        classic=False,
        pre_wd=False,
        tcoef=0.0,
        device=device,
        fused=fused,
    )


@explained_class
class LAMB(Optimizer):
    """Adam with a rate for each layer; the common ground of Adam and AdamW.

    adam=True leaves the rate the same for all.

    Source: You et al., "Large Batch Optimization for Deep Learning", 2019.
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
        device: Any = None,
        fused: Any = FUSE_OPTIM,
    ) -> None:
        super().__init__(params, lr, device, fused)
        self.b1, self.b2, self.eps, self.wd, self.adam = b1, b2, eps, weight_decay, adam
        # 1 - b ** steps, kept as such: taken from a power near 1 it would lose its digits.
        dtype = _rate_dtype(self.params)
        self.correction1 = Tensor.zeros(1, dtype=dtype, device=self.device)
        self.correction2 = Tensor.zeros(1, dtype=dtype, device=self.device)
        self.m, self.v = self._state(), self._state()
        self.buffers += [self.correction1, self.correction2, *self.m, *self.v]

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        self.correction1.assign(self.correction1 * self.b1 + (1 - self.b1))
        self.correction2.assign(self.correction2 * self.b2 + (1 - self.b2))
        updates = [
            self._update(i, p, g) for i, (p, g) in enumerate(zip(params, grads, strict=True))
        ]
        return updates, []

    def _update(self, i: int, p: Tensor, grad: Tensor) -> Tensor:
        m, v, wide = self.m[i], self.v[i], _state_dtype(p)
        g = grad.cast(wide)
        m.assign(m * self.b1 + g * (1 - self.b1))
        v.assign(v * self.b2 + g.square() * (1 - self.b2))
        place = p.device
        mean = m / self.correction1.to(place).cast(wide)
        scale = (v / self.correction2.to(place).cast(wide)).sqrt() + self.eps
        t = p.detach().cast(wide)
        up = mean / scale + t * self.wd if self.wd else mean / scale
        rate = self.lr.to(place).cast(wide)
        if self.adam:
            return up * rate
        size, length = self._length(i, t), self._length(i, up)
        trust = (size > 0).where((length > 0).where(size / length, 1.0), 1.0)
        return up * trust * rate


@explained
def AdamW(
    params: list[Tensor],
    lr: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    device: Any = None,
    fused: Any = FUSE_OPTIM,
) -> LAMB:
    """Adam with weight decay apart from the gradient.

    Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2017.
    """
    return LAMB(params, lr, b1, b2, eps, weight_decay, adam=True, device=device, fused=fused)


@explained
def Adam(
    params: list[Tensor],
    lr: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    device: Any = None,
    fused: Any = FUSE_OPTIM,
) -> LAMB:
    """Steps of about equal size whatever the gradient's, from its running mean and variance.

    Source: Kingma, Ba, "Adam: A Method for Stochastic Optimization", 2014.
    """
    return LAMB(params, lr, b1, b2, eps, 0.0, adam=True, device=device, fused=fused)
