"""qr and svd: products, right angles, order, signs; any rank, scale, place; gradients of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinylab
from tinylab import Tensor, TinyJit, Variable, dtypes, function
from tinylab.errors import OperandError, ShapeError

RNG = np.random.default_rng
EPSILON = {"float16": 1e-3, "float32": 1.2e-7, "float64": 2.3e-16}


def drawn(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG(sum(shape)).standard_normal(shape).astype(dtype)


def hilbert(n: int) -> np.ndarray:
    i = np.arange(n)
    return 1 / (i[:, None] + i + 1)


def check_qr(a: np.ndarray, device: str = "CPU") -> None:
    for mode in ("reduced", "complete"):
        _check_qr(a, device, mode)


def _check_qr(a: np.ndarray, device: str, mode: Any) -> None:
    q, r = (t.numpy().astype(np.float64) for t in Tensor(a, device=device).qr(mode=mode))
    right = np.linalg.qr(a.astype(np.float64), mode=mode)
    assert (q.shape, r.shape) == (right[0].shape, right[1].shape)
    near = 8 * max(a.shape[-2:]) * EPSILON[a.dtype.name]
    np.testing.assert_allclose(q @ r, a, atol=near * (np.abs(a).max(initial=0) or 1), rtol=0)
    assert_right_angles(q, near)
    assert (np.tril(r, -1) == 0).all()


def check_svd(a: np.ndarray, full: bool = True, device: str = "CPU") -> None:
    found = Tensor(a, device=device).svd(full_matrices=full)
    u, s, v = (t.numpy().astype(np.float64) for t in found)
    right = np.linalg.svd(a.astype(np.float64), full_matrices=full)
    assert [m.shape for m in (u, s, v)] == [m.shape for m in right]
    near, top = 8 * max(a.shape[-2:]) * EPSILON[a.dtype.name], np.abs(a).max(initial=0) or 1
    np.testing.assert_allclose(s, right[1], atol=near * right[1].max(initial=0), rtol=0)
    assert (np.diff(s, axis=-1) <= 0).all()
    k = s.shape[-1]
    product = (u[..., :k] * s[..., None, :]) @ v[..., :k, :]
    np.testing.assert_allclose(product, a, atol=near * top, rtol=0)
    assert_right_angles(u, near)
    assert_right_angles(v.swapaxes(-1, -2), near)


def assert_right_angles(columns: np.ndarray, near: float) -> None:
    gram = columns.swapaxes(-1, -2) @ columns
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), atol=near)


SHAPES = [(1, 1), (3, 3), (4, 2), (2, 4), (1, 5), (5, 1), (2, 3, 3), (2, 3, 5, 4), (10, 16, 16)]


@pytest.mark.parametrize("dtype", list(EPSILON))
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_types(shape: tuple[int, ...], dtype: str) -> None:
    a = drawn(*shape, dtype=dtype)
    check_qr(a)
    check_svd(a, full=True)
    check_svd(a, full=False)
    assert {t.dtype.name for t in (*Tensor(a).qr(), *Tensor(a).svd())} == {dtype}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(64, 64), (128, 128), (200, 30), (30, 200)])
def test_many_columns(shape: tuple[int, ...], dtype: str) -> None:
    a = drawn(*shape, dtype=dtype)
    check_qr(a)
    check_svd(a)


MATRICES = {
    "zero": np.zeros((1, 1)),
    "zeros": np.zeros((3, 5)),
    "ones": np.ones((7, 7)),
    "rank_1": np.array([[1, 2], [2, 4]]),
    "rank_3": drawn(20, 3) @ drawn(3, 20),
    "tall": np.ones((4, 2)),
    "wide": np.zeros((2, 4)),
    "batch": np.array([[[1, 1], [1, 1]], [[0, 0], [0, 0]], [[0, 2], [1, 0]]]),
    "identity": np.eye(5),
    "mirror": -np.eye(3),
    "turned": np.linalg.qr(drawn(6, 6))[0],
    "hilbert": hilbert(12),
    "triangle": np.triu(np.ones((30, 30))),
    "graded": drawn(8, 8) * 10.0 ** -np.arange(0, 32, 4),
    "graded rows": drawn(8, 8) * 10.0 ** -np.arange(0, 32, 4)[:, None],
    "tiny": np.outer([1, 2], [1, 2]) * 1e-30,
    "large": np.ones((2, 2)) * 1e30,
    "subnormal": np.eye(2) * 1e-40,
    "far apart": np.diag([1, 1e-20, 1e-30, 0]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATRICES)
def test_any_rank_and_scale(name: str, dtype: str) -> None:
    a = MATRICES[name].astype(dtype)
    check_qr(a)
    check_svd(a, full=True)
    check_svd(a, full=False)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_scales_of_doubles(scale: float) -> None:
    check_qr(drawn(4, 4, dtype="float64") * scale)
    check_svd(drawn(4, 4, dtype="float64") * scale)


def test_small_singular_values_keep_their_digits() -> None:
    a = np.diag([1, 1e-10, 1e-25]).astype(np.float32)
    np.testing.assert_allclose(Tensor(a).svd()[1].numpy(), [1, 1e-10, 1e-25], rtol=1e-6)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
def test_signs_of_qr_are_those_of_lapack(shape: tuple[int, ...]) -> None:
    for a in (drawn(*shape, dtype="float64"), -np.eye(*shape), np.triu(drawn(*shape))):
        q, r = (t.numpy() for t in Tensor(a).qr("complete"))
        right = np.linalg.qr(a, mode="complete")
        np.testing.assert_allclose(r, right[1], atol=1e-5)
        k = min(shape)
        np.testing.assert_allclose(q[:, :k], right[0][:, :k], atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0, 2, 2), (0, 0)])
def test_nothing_in_it(shape: tuple[int, ...]) -> None:
    check_qr(np.zeros(shape, np.float32))
    check_svd(np.zeros(shape, np.float32))
    check_svd(np.zeros(shape, np.float32), full=False)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_nan_in_its_own_matrix(bad: float, device: str) -> None:
    a = drawn(2, 5, 4)
    a[1, 2, 1] = bad
    t = Tensor(a, device=device)
    for found in (*t.qr(), *t.qr("complete"), *t.svd(), *t.svd(full_matrices=False)):
        assert np.isfinite(found.numpy()[0]).all()
        assert np.isnan(found.numpy()[1]).all()


def test_on_the_interpreter() -> None:
    check_qr(drawn(6, 4), "PYTHON")
    check_svd(drawn(2, 4, 6, dtype="float64"), device="PYTHON")
    check_svd(np.ones((4, 4), np.float32), device="PYTHON")


def test_other_types_are_taken_as_floats() -> None:
    for dtype in (dtypes.bool, dtypes.int32, dtypes.bfloat16, dtypes.fp8e4m3):
        s = Tensor.ones(2, 2).cast(dtype).svd()[1]
        assert s.tolist() == pytest.approx([2, 0], abs=1e-6)
    assert Tensor.arange(4).reshape(2, 2).qr()[1].dtype is dtypes.float32


DEVICES = tuple(f"CPU:{i}" for i in range(4))


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_on_several_devices(axis: int | None) -> None:
    a = drawn(8, 4, 4)
    t = Tensor(a).shard(DEVICES, axis)
    u, s, v = t.svd()
    assert u.uop.axis == (axis if axis == 0 else None)
    np.testing.assert_allclose((u * s.unsqueeze(-2) @ v).numpy(), a, atol=1e-5)
    q, r = t.qr()
    np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-5)
    alone = Tensor(a)
    wanted = (alone.svd()[1].square().sum() + alone.qr()[1].sum()).gradient(alone)[0]
    got = (s.square().sum() + r.sum()).gradient(t)[0]
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), atol=1e-5)


def test_a_batch_that_is_cut_along_its_second_axis() -> None:
    a = drawn(2, 4, 3, 3)
    s = Tensor(a).shard(DEVICES, 1).svd()[1]
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a)[1], atol=1e-5)


def test_captured_and_traced() -> None:
    def both(t: Tensor) -> tuple[Tensor, ...]:
        return (*t.svd(), *t.qr())

    step = TinyJit(lambda t: tuple(x.realize() for x in both(t)))
    traced = function(both)
    for n in range(4):
        a = drawn(3, 5, 4) + n
        for found in (step(Tensor(a).realize()), traced(Tensor(a))):
            u, s, v, q, r = (x.numpy() for x in found)
            np.testing.assert_allclose((u[..., :4] * s[..., None, :]) @ v, a, atol=2e-5)
            np.testing.assert_allclose(q @ r, a, atol=2e-5)


@pytest.mark.parametrize("precompile", [False, True])
def test_gradients_through_a_traced_function(precompile: bool) -> None:
    def loss(t: Tensor, w: Tensor) -> Tensor:
        u, s, v = t.svd(full_matrices=False)
        return ((u @ v) * w).sum() + s.sum() + t.qr()[1].square().sum()

    traced = function(loss, precompile=precompile, precompile_backward=precompile)
    t, w = Tensor(drawn(4, 3)), Tensor(drawn(4, 3) + 1)
    got, wanted = (f(t, w).gradient(t)[0].numpy() for f in (traced, loss))
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_a_symbolic_number_of_matrices() -> None:
    a = drawn(10, 3, 3)
    n = Variable("n", 1, 10).bind(4)
    part = Tensor(a).realize()[:n]
    u, s, v = part.svd()
    q, r = part.qr()
    right = np.linalg.svd(a[:4])[1].sum()
    assert s.sum().item() == pytest.approx(right, rel=1e-5)
    for product in (u * s.unsqueeze(-2) @ v, q @ r):
        assert (product - part).abs().max().item() < 1e-5


def test_the_shapes_of_qr_are_those_of_numpy_and_torch() -> None:
    """tinygrad's are the complete ones, which nobody else gives unasked."""
    tall, wide = Tensor(drawn(2, 5, 3)), Tensor(drawn(3, 5))
    assert [t.shape for t in tall.qr()] == [(2, 5, 3), (2, 3, 3)]
    assert [t.shape for t in tall.qr(mode="complete")] == [(2, 5, 5), (2, 5, 3)]
    assert [t.shape for t in wide.qr()] == [(3, 3), (3, 5)]
    assert [t.shape for t in Tensor.zeros(2, 0, 3).qr()] == [(2, 0, 0), (2, 0, 3)]
    with pytest.raises(OperandError) as raised:
        tall.qr("full")
    assert raised.value.message == "qr: mode must be 'reduced' or 'complete', not 'full'"


def test_a_reduced_qr_makes_no_basis_of_all_rows() -> None:
    q, r = Tensor(drawn(20_000, 3)).qr()
    np.testing.assert_allclose((q.T @ q).numpy(), np.eye(3), atol=1e-5)
    assert r.shape == (3, 3)


@pytest.mark.parametrize("name", ["qr", "svd"])
def test_what_is_no_matrix_is_refused(name: str) -> None:
    with pytest.raises(ShapeError, match=rf"{name}: expected two or more dimensions, got \(3,\)"):
        getattr(Tensor.ones(3), name)()
    n = Variable("n", 1, 3).bind(2)
    with pytest.raises(ShapeError, match=rf"{name}: the last two sizes must be numbers"):
        getattr(Tensor.ones(3, 3)[:n], name)()


def test_they_are_kernels_with_a_source() -> None:
    with tinylab.record() as record:
        Tensor(drawn(12, 8)).svd()[1].realize()
    named = {k.name: k for k in record.kernels}
    assert {"svd_12_8", "qr_12_8"} <= set(named)
    assert "svd_12_8" in named["svd_12_8"].source


# *** gradients

WEIGHTS = np.sin(np.arange(400)).reshape(20, 20)
Language = Any  # Tensor, or the module torch, which may not be here


def weights(language: Language, x: Any) -> Any:
    rows, columns = x.shape[-2:]
    w = WEIGHTS[:rows, :columns].copy()
    return Tensor(w) if language is Tensor else language.tensor(w)


def svd_loss(language: Language, full: bool) -> Callable[[Any], Any]:
    """Of squares and products, which do not depend on signs."""

    def loss(x: Any) -> Any:
        found = x.svd(full) if language is Tensor else language.linalg.svd(x, full_matrices=full)
        u, s, v = found
        u, v = u[..., : s.shape[-1]], v[..., : s.shape[-1], :]
        product = u * s.unsqueeze(-2) @ v
        of_vectors = (u**2 * weights(language, u)).sum() + (v**2 * weights(language, v)).sum() * 0.7
        return of_vectors + (s**3).sum() + (product * weights(language, product)).sum()

    return loss


def qr_loss(language: Language, mode: str) -> Callable[[Any], Any]:
    """Of the columns that both modes have; PyTorch's complete mode has no gradient."""

    def loss(x: Any) -> Any:
        k = min(x.shape[-2:])
        q, r = x.qr(mode) if language is Tensor else language.linalg.qr(x)
        q, r = q[..., :k], r[..., :k, :]
        return (q * weights(language, q)).sum() + (r**2 * weights(language, r)).sum()

    return loss


def values_loss(language: Language) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        s = x.svd()[1] if language is Tensor else language.linalg.svdvals(x)
        return (s**2).sum()

    return loss


LOSSES = {
    "qr": lambda language: qr_loss(language, "reduced"),
    "complete qr": lambda language: qr_loss(language, "complete"),
    "values": values_loss,
    "svd": lambda language: svd_loss(language, True),
    "thin svd": lambda language: svd_loss(language, False),
}


@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6), (3, 4, 4)])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_both_orders_are_those_of_torch(name: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    a, w = drawn(*shape, dtype="float64"), np.cos(np.arange(np.prod(shape))).reshape(shape)
    x, t = Tensor(a), torch.tensor(a, requires_grad=True)
    (first,) = LOSSES[name](Tensor)(x).gradient(x)
    (right,) = torch.autograd.grad(LOSSES[name](torch)(t), t, create_graph=True)
    np.testing.assert_allclose(first.numpy(), right.detach().numpy(), rtol=1e-9, atol=1e-9)
    (second,) = (first * Tensor(w)).sum().gradient(x)
    (right,) = torch.autograd.grad((right * torch.tensor(w)).sum(), t)
    np.testing.assert_allclose(second.numpy(), right.numpy(), rtol=1e-8, atol=1e-8)


def differences(f: Callable[[np.ndarray], float], a: np.ndarray, step: float = 1e-6) -> np.ndarray:
    found = np.zeros_like(a)
    for place in np.ndindex(a.shape):
        d = np.zeros_like(a)
        d[place] = step
        found[place] = (f(a + d) - f(a - d)) / (2 * step)
    return found


@pytest.mark.parametrize("name", ["qr", "svd"])
def test_a_gradient_through_the_columns_that_fill_up(name: str) -> None:
    """The projection beside the columns is the same whichever basis was chosen there."""
    a, g = drawn(5, 3, dtype="float64"), drawn(5, 5, dtype="float64")
    x = Tensor(a)
    rest = (x.svd() if name == "svd" else x.qr("complete"))[0][:, 3:]
    got = ((rest @ rest.T) * Tensor(g)).sum().gradient(x)[0].numpy()

    def projected(m: np.ndarray) -> float:
        return float(((np.eye(5) - m @ np.linalg.pinv(m)) * g).sum())

    np.testing.assert_allclose(got, differences(projected, a), atol=1e-7)


def test_a_gradient_where_singular_values_coincide() -> None:
    """The nearest orthogonal matrix is smooth there, its vectors are not."""
    a, g = np.linalg.qr(drawn(4, 4, dtype="float64"))[0] * 2, drawn(4, 4, dtype="float64")
    x = Tensor(a)
    u, _, v = x.svd()
    got = ((u @ v) * Tensor(g)).sum().gradient(x)[0].numpy()

    def nearest(m: np.ndarray) -> float:
        u, _, v = np.linalg.svd(m)
        return float(((u @ v) * g).sum())

    np.testing.assert_allclose(got, differences(nearest, a), atol=1e-7)
    zero = Tensor(np.zeros((3, 3)))
    assert np.isfinite(zero.svd()[1].sum().gradient(zero)[0].numpy()).all()
