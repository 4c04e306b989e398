"""What a notebook shows of a tensor: words, a grid, a picture; each value, each outlier is seen."""

import base64
import re
import struct
import zlib

import numpy as np
import pytest

from tinylab import Tensor, Variable, dtypes
from tinylab.tensor.display import (
    _HIGH,
    _LOW,
    _NAN,
    _NEGATIVE,
    _POSITIVE,
    _ZERO_LINE,
    facts_of,
    fold,
    png,
    shade,
)

NAN, INF = float("nan"), float("inf")


def shown(x):
    return x.realize()._repr_html_()


def pixels_of(html):
    """The picture in a page, as RGBA rows; every byte of the file is checked."""
    raw = base64.b64decode(re.search(r"base64,([^\"]+)", html)[1])
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at : at + 8])
        body = raw[at + 8 : at + 8 + size]
        assert struct.unpack(">I", raw[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind], at = body, at + 12 + size
    wide, high = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(high, 1 + wide * 4)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(high, wide, 4)


def test_few_values_are_a_grid():
    html = shown(Tensor([[1.5, -2.0, 0.0], [NAN, INF, -INF]]))
    assert html.count("<td") == 6
    for text in ("(2, 3) float", "on CPU", ">1.5<", ">-2<", ">NaN<", ">∞<", ">-∞<", "1 NaN",
                 "2 infinite", "min -2", "max 1.5", "mean -0.1667"):  # fmt: skip
        assert text in html


def test_leading_axes_are_grids_side_by_side():
    html = shown(Tensor(np.arange(24).reshape(2, 3, 4)))
    assert html.count("<table") == 2
    assert "[1, …]" in html


def test_what_is_not_computed_is_described_and_stays_so():
    x = Tensor([1.0, 2.0]) + 1
    html = x._repr_html_()
    assert "not computed yet" in html
    assert not x._is_stored()
    assert "no elements" in Tensor.zeros(0, 3)._repr_html_()


@pytest.mark.parametrize(
    "value",
    [True, 3, -2.5, NAN, [True, False], [[1, 2]], [1.5] * 5, [0.0, 0.0], [NAN, NAN], [INF, -INF]],
)
@pytest.mark.parametrize("dtype", [None, dtypes.float16, dtypes.bfloat16, dtypes.float64])
def test_everything_can_be_shown(value, dtype):
    assert "<td" in shown(Tensor(value, dtype=dtype).clone())


@pytest.mark.parametrize(
    "shape", [(401,), (30, 30), (1, 999), (999, 1), (3, 2, 50, 50), (50, 9, 9)]
)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int8, dtypes.uint64, dtypes.bool])
def test_many_values_are_a_picture(shape, dtype):
    values = np.random.default_rng(0).integers(0, 2, shape)
    html = shown(Tensor(values).cast(dtype))
    assert pixels_of(html).any()
    assert ("true" if dtype is dtypes.bool else "mean") in html


def test_one_outlier_among_a_million_is_seen_with_its_sign():
    values = np.random.default_rng(1).normal(size=(1000, 1000)).astype(np.float32)
    values[123, 456], values[900, 50], values[500, 500] = 1e4, -1e4, NAN
    html = shown(Tensor(values))
    found = pixels_of(html)
    assert found.shape[0] <= 200
    assert found.shape[1] <= 320
    for color in (_HIGH, _LOW, _NAN):
        assert (found[..., :3] == color).all(-1).sum() == 25
    assert "2 beyond" in html
    assert "1 NaN" in html


def test_signs_are_colours_and_sizes_are_strengths():
    values = np.array([[-1.0, -0.25, 0.0, 0.25, 1.0]])
    found = shade(fold(values), facts_of(values))
    assert found[0, :, 3].tolist() == [255, 127, 0, 127, 255]
    assert found[0, 0, 2] > found[0, 0, 0]
    assert found[0, 4, 0] > found[0, 4, 2]


def test_a_curve_shows_the_ends_of_each_column():
    values = np.zeros(100_000, np.float32)
    values[777], values[50_000] = 1.0, -1.0
    found = pixels_of(shown(Tensor(values)))
    assert found.shape[0] == 120
    assert found.shape[1] <= 640
    assert found[0, :, 3].any()
    assert found[-1, :, 3].any()


@pytest.mark.parametrize("count", [25, 100, 401, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_axis_is_a_low_strip_with_a_line_at_zero(count, sign):
    html = shown(Tensor(np.linspace(0, sign * 8, count, dtype=np.float32)))
    found = pixels_of(html)
    assert found.shape[0] == 120
    assert 300 <= found.shape[1] <= 640
    zero = found[-1] if sign > 0 else found[0]
    assert (zero == _ZERO_LINE).all()
    bars = found[:-1] if sign > 0 else found[1:]
    drawn = bars[bars[..., 3] > 0]
    assert (drawn[:, :3] == (_POSITIVE if sign > 0 else _NEGATIVE)).all()
    edges = re.findall("<span>([^<]+)</span>", html)
    assert edges == (["8", "0"] if sign > 0 else ["0", "-8"])


def test_a_strip_of_zeros_and_of_nans_has_its_line_and_says_nothing_false():
    html = shown(Tensor(np.zeros(200, np.float32)))
    assert (pixels_of(html)[..., 3] > 0).any(1).sum() == 1
    assert re.findall("<span>([^<]+)</span>", html) == ["0"]
    assert (pixels_of(shown(Tensor(np.full(200, NAN, np.float32))))[..., :3] == _NAN).any()


@pytest.mark.parametrize(
    ("values", "legend"),
    [
        ([0.0, 1474.0], ("0", "+1474")),
        ([-1474.0, -2.0], ("-1474", "0")),
        ([-3.0, 1474.0], ("-1474", "+1474")),
        ([0.0, 0.0], None),
    ],
)
def test_the_legend_has_the_signs_that_there_are(values, legend):
    html = shown(Tensor(np.resize(np.float32(values), (30, 30))))
    found = re.search(r">([^<>]+) <span style=[^>]+gradient[^>]+></span> ([^<]+)<", html)
    assert (found and found.groups()) == legend
    assert "-0" not in html


def test_a_picture_is_small():
    assert len(shown(Tensor.ones(2000, 2000))) < 20_000
    assert len(png(np.zeros((2, 3, 4), np.uint8))) < 100


@pytest.mark.parametrize("shape", [(), (3,), (300, 300), (0, 3)])
def test_what_cannot_be_read_is_described(shape):
    x = Tensor.ones(*shape, device="NULL").contiguous().realize()
    assert repr(x) in (f"<Tensor {shape} dtypes.float on NULL>",) or x.numel() == 0
    assert ("no copyout on NULL" in x._repr_html_()) == (x.numel() > 0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([np.inf] * 4, "no finite value · 0 NaN · 4 infinite"),
        ([np.inf], "no finite value · 0 NaN · 1 infinite"),
        ([-np.inf] * 10_000, "no finite value · 0 NaN · 10000 infinite"),
        ([np.inf, -np.inf, 1.0], "min 1 · mean 1 · max 1 · 0 NaN · 2 infinite"),
    ],
)
def test_infinities_are_counted_where_nothing_is_finite(values: list[float], said: str):
    assert said in Tensor(np.array(values, np.float32)).realize()._repr_html_()


def test_all_nan_has_no_least_value():
    shown = Tensor(np.full(4, np.nan, np.float32)).realize()._repr_html_()
    assert "no finite value" in shown
    assert "4 NaN" in shown
    assert "min" not in shown


def rows(n):
    """The first n of ten stored rows."""
    return Tensor.arange(20).reshape(10, 2).contiguous().realize()[:n]


def test_a_tensor_of_a_bound_size_shows_its_variable_and_its_values():
    v = Variable("v", 1, 10).bind(3)
    shown = repr(rows(v))
    assert shown.startswith("Tensor([[0, 1],\n        [2, 3],\n        [4, 5]], shape=(v, 2)")
    assert "where v = 3" in shown
    html = rows(v)._repr_html_()
    assert "(v, 2)" in html
    assert "where v = 3" in html
    assert html.count("<td") == 6
    assert "max 5" in html
    more = repr(rows(v + 1))
    assert "shape=((v+1), 2) where v = 3" in more
    assert "[6, 7]]" in more


def test_a_window_that_moves_shows_what_it_is_over():
    v = Variable("v", 1, 8).bind(3)
    x = Tensor.arange(10).contiguous().realize()[v : v + 2]
    assert "[3, 4]" in repr(x)
    assert x._repr_html_().count("<td") == 2


def test_a_size_without_a_value_is_described():
    x = rows(Variable("v", 1, 10))
    assert repr(x) == "<Tensor (v, 2) dtypes.int on CPU>"
    assert "without a value" in x._repr_html_()
    later = rows(Variable("v", 1, 10).bind(4)) * 2
    assert repr(later) == "<Tensor (v, 2) where v = 4 dtypes.int on CPU>"
    assert "not computed yet" in later._repr_html_()


@pytest.mark.parametrize("value", [3.25, 3, True, NAN, -INF, 2**40])
@pytest.mark.parametrize("how", [lambda x: x, lambda x: x.realize(), lambda x: x.expand(3)])
def test_a_constant_is_its_value(value, how):
    x = how(Tensor(value))
    before = x.uop
    assert repr(x).startswith(f"Tensor({np.array2string(x.numpy(), separator=', ')}, ")
    html = x._repr_html_()
    assert html.count("<td") == x.numel()
    assert "not computed" not in html
    assert x.uop is before


def test_a_constant_of_any_size_is_told_in_a_word():
    assert "3 everywhere" in Tensor(3).expand(10**5, 10**5)._repr_html_()
    assert "no elements" in Tensor(3).expand(0, 2)._repr_html_()
    padded = Tensor(3).reshape(1).pad((1, 1))
    assert "not computed" in padded._repr_html_()
    assert padded.tolist() == [0, 3, 0]
