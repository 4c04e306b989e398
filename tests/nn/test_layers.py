"""Layers: shapes, values against their formula, training against evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tensor.rows_reduce import conv, conv_transpose, normed
from tinylab import Context, Tensor, nn
from tinylab.errors import OperandError, ShapeError
from tinylab.nn.state import get_parameters, get_state_dict


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def close(a: Tensor, b: np.ndarray, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(a.numpy(), b, rtol=tolerance, atol=tolerance)


def test_linear() -> None:
    layer, x = nn.Linear(4, 3), drawn(2, 4)
    close(layer(Tensor(x)), x @ layer.weight.numpy().T + layer.bias.numpy())
    assert nn.Linear(4, 3, bias=False).bias is None
    assert np.abs(layer.weight.numpy()).max() <= 0.5


@pytest.mark.parametrize(("padding", "stride", "groups"), [(0, 1, 1), (1, 2, 2), ("same", 1, 1)])
def test_conv2d(padding, stride, groups) -> None:  # type: ignore[no-untyped-def]
    layer, x = nn.Conv2d(4, 6, 3, stride, padding, groups=groups), drawn(2, 4, 7, 6)
    pad = 1 if padding == "same" else padding
    right = (
        conv(x, layer.weight.numpy(), stride, pad, 1, groups) + layer.bias.numpy()[:, None, None]
    )
    close(layer(Tensor(x)), right)


def test_conv_padding_words() -> None:
    assert nn.Conv2d(1, 1, 3, padding="valid").padding == 0
    assert nn.Conv2d(1, 1, (2, 3), padding="same")(Tensor(drawn(1, 1, 5, 6))).shape == (1, 1, 5, 6)
    with pytest.raises(OperandError, match="padding='same' is not supported"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")
    with pytest.raises(OperandError, match="invalid padding"):
        nn.Conv2d(1, 1, 3, padding="odd")


def test_conv1d_and_transposed() -> None:
    one, x = nn.Conv1d(3, 2, 3), drawn(2, 3, 8)
    close(one(Tensor(x)), conv(x, one.weight.numpy()) + one.bias.numpy()[:, None])
    back, y = nn.ConvTranspose2d(3, 2, 3, stride=2), drawn(1, 3, 4, 4)
    close(
        back(Tensor(y)),
        conv_transpose(y, back.weight.numpy(), 2) + back.bias.numpy()[:, None, None],
    )
    assert nn.ConvTranspose1d(3, 2, 3)(Tensor(x)).shape == (2, 2, 10)


def test_batchnorm() -> None:
    layer, x = nn.BatchNorm2d(3), drawn(4, 3, 5, 5) * 2 + 1
    with Context(TRAINING=1):
        close(layer(Tensor(x)), normed(x, (0, 2, 3)), 1e-4)
    close(layer.running_mean, 0.1 * x.mean((0, 2, 3)))
    close(layer.running_var, 0.9 + 0.1 * x.var((0, 2, 3), ddof=1), 1e-4)
    assert layer.num_batches_tracked.item() == 1
    mean, var = layer.running_mean.numpy(), layer.running_var.numpy()
    right = (x - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    close(layer(Tensor(x)), right, 1e-4)


def test_norms() -> None:
    x = drawn(2, 6, 4, 4)
    close(nn.GroupNorm(3, 6)(Tensor(x)), normed(x.reshape(2, 3, 32), -1).reshape(x.shape), 1e-4)
    close(nn.InstanceNorm(6)(Tensor(x)), normed(x, (2, 3)), 1e-4)
    close(nn.LayerNorm((4, 4))(Tensor(x)), normed(x, (2, 3)), 1e-4)
    close(nn.LayerNorm2d(6)(Tensor(x)), normed(x, 1), 1e-4)
    close(nn.RMSNorm(4)(Tensor(x)), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), 1e-4)
    with pytest.raises(OperandError, match="must match"):
        nn.LayerNorm(5)(Tensor(x))


def test_embedding() -> None:
    layer, idx = nn.Embedding(10, 3), np.array([[1, 9], [0, 1]])
    close(layer(Tensor(idx)), layer.weight.numpy()[idx])
    layer(Tensor(idx)).sum().backward()
    counts = np.bincount(idx.ravel(), minlength=10)
    close(layer.weight.grad, np.repeat(counts[:, None], 3, 1).astype(np.float32))
    with pytest.raises(OperandError, match="Expected integer dtype"):
        layer(Tensor([1.0]))


def test_lstm_cell() -> None:
    cell, x = nn.LSTMCell(4, 3), drawn(2, 4)
    h, c = cell(Tensor(x))
    gates = x @ cell.weight_ih.numpy().T
    i, _, g, o = np.split(gates, 4, 1)
    s = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    right = s(i) * np.tanh(g)
    close(c, right)
    close(h, s(o) * np.tanh(right))
    assert cell(Tensor(x), (h, c))[0].shape == (2, 3)


class Net:
    def __init__(self) -> None:
        self.layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm(2), Tensor.relu]
        self.head = {"out": nn.Linear(2, 3, bias=False)}
        self.name = "net"


def test_state_dict_names() -> None:
    names = list(get_state_dict(Net()))
    assert names[:2] == ["layers.0.weight", "layers.0.bias"]
    assert "layers.1.running_mean" in names
    assert names[-1] == "head.out.weight"
    assert len(get_parameters(Net())) == len(names)


def test_network_trains() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 1, 6, 6)).astype(np.float32)
    y = (x[:, 0, 1:4, 1:4].sum((1, 2)) > 0).astype(np.int32)
    Tensor.manual_seed(3)
    c, b, out = nn.Conv2d(1, 4, 3), nn.BatchNorm(4), nn.Linear(16, 2)
    opt = nn.optim.Adam([*get_parameters(c), b.weight, b.bias, *get_parameters(out)], lr=0.05)

    def forward(t: Tensor) -> Tensor:
        return out(b(c(t)).relu().max_pool2d().flatten(1).dropout(0.1))

    with Context(TRAINING=1):
        for _ in range(40):
            opt.zero_grad()
            loss = forward(Tensor(x)).cross_entropy(Tensor(y)).backward()
            opt.step()
    assert loss.item() < 0.3
    assert (forward(Tensor(x)).argmax(1) == Tensor(y)).mean().item() > 0.9


OTHER = "was made for 4 features"
FEWER = "needs an input with 2 axes or more"
# fmt: off
MISFITS = {
    "batch 0-d": (lambda: nn.BatchNorm(4), (), FEWER),
    "batch": (lambda: nn.BatchNorm(4, affine=False), (2, 3), f"{OTHER} along axis 1, not"),
    "group 0-d": (lambda: nn.GroupNorm(2, 4), (), FEWER),
    "group": (lambda: nn.GroupNorm(2, 4, affine=False), (2, 8, 3), OTHER),
    "instance 0-d": (lambda: nn.InstanceNorm(4), (), FEWER),
    "instance": (lambda: nn.InstanceNorm(4, affine=False), (2, 8, 3), OTHER),
    "layer 2d axes": (lambda: nn.LayerNorm2d(4), (2, 4), "needs an input with 4 axes"),
    "layer 2d": (lambda: nn.LayerNorm2d(4), (2, 3, 5, 5), OTHER),
    "rms": (lambda: nn.RMSNorm(4), (2, 1), f"{OTHER} along axis -1"),
    "rms 0-d": (lambda: nn.RMSNorm(4), (), "needs an input with an axis or more"),
    "lstm 0-d": (lambda: nn.LSTMCell(4, 3), (), FEWER),
    "lstm": (lambda: nn.LSTMCell(4, 3), (2, 5), OTHER),
}
# fmt: on


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("name", MISFITS)
def test_an_input_of_another_shape_is_refused_in_a_sentence(name: str, training: int) -> None:
    make, shape, says = MISFITS[name]
    layer = make()
    says = f"^{type(layer).__name__} {says}"
    with Context(TRAINING=training), pytest.raises(ShapeError, match=says):
        layer(Tensor.ones(*shape))


def test_the_state_of_an_lstm_is_two_tensors_of_its_size() -> None:
    cell, x = nn.LSTMCell(4, 3), Tensor.ones(2, 4)
    for state in (Tensor.ones(2, 3), (Tensor.ones(2, 3),)):
        with pytest.raises(OperandError, match="the state is two tensors"):
            cell(x, state)
    with pytest.raises(ShapeError, match="made for 3 features"):
        cell(x, (Tensor.ones(2, 3), Tensor.ones(2, 5)))


def test_norms_of_an_empty_batch_are_empty() -> None:
    for layer in (nn.GroupNorm(2, 4), nn.InstanceNorm(4)):
        assert layer(Tensor.ones(0, 4, 3)).numpy().shape == (0, 4, 3)
