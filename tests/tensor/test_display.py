"""What a notebook shows of a tensor: words, a grid, a picture; each value, each outlier is seen."""

import base64
import re
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tinylab import Tensor, TinyJit, Variable, dtypes
from tinylab.tensor import facts as colors
from tinylab.tensor.facts import facts_of
from tinylab.tensor.picture import ZERO_LINE, fold, png, shade

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
    for color in (colors.HIGH, colors.LOW, colors.NAN):
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
    assert (zero == ZERO_LINE).all()
    bars = found[:-1] if sign > 0 else found[1:]
    drawn = bars[bars[..., 3] > 0]
    assert (drawn[:, :3] == (colors.POSITIVE if sign > 0 else colors.NEGATIVE)).all()
    edges = re.findall("<span>([^<]+)</span>", html)
    assert edges == (["8", "0"] if sign > 0 else ["0", "-8"])


def test_a_strip_of_zeros_and_of_nans_has_its_line_and_says_nothing_false():
    html = shown(Tensor(np.zeros(200, np.float32)))
    assert (pixels_of(html)[..., 3] > 0).any(1).sum() == 1
    assert re.findall("<span>([^<]+)</span>", html) == ["0"]
    assert (pixels_of(shown(Tensor(np.full(200, NAN, np.float32))))[..., :3] == colors.NAN).any()


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
    html = Tensor(np.array(values, np.float32)).realize()._repr_html_()
    assert said in re.sub("<[^>]+>", "", html)


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


@pytest.mark.parametrize("value", [3.25, 3, True, NAN, -INF, 2**40, 1e300])
@pytest.mark.parametrize("how", [lambda x: x, lambda x: x.realize(), lambda x: x.expand(3)])
def test_a_constant_is_its_value(value, how):
    x = how(Tensor(value))
    before = x.uop
    number = np.broadcast_to(np.array(value), x.shape)
    assert repr(x).startswith(f"Tensor({np.array2string(number, separator=', ')}, ")
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


MANY_PLANES = [
    (64, 32, 3, 3), (1000, 28, 28), (64, 3, 64, 64), (37, 30, 30), (9000, 4, 4), (50, 2, 1000),
    (50, 1000, 2), (3, 5, 1, 999), (7, 1, 40, 40), (2, 2, 2, 2, 2, 30, 30), (401, 2, 1),
]  # fmt: skip


def marks(values):
    """Where a picture shows an outlier, by sign, and a NaN: how many pixels of each."""
    pixels = shade(fold(values), facts_of(values))
    return [(pixels[..., :3] == c).all(-1).sum() for c in (colors.HIGH, colors.LOW, colors.NAN)]


@pytest.mark.parametrize("shape", MANY_PLANES)
@pytest.mark.parametrize("value", [1e6, -1e6, INF, -INF, NAN])
def test_what_stands_out_is_seen_in_whichever_plane_it_is(shape, value):
    values = np.full(shape, 0.1, np.float32)
    assert marks(values.squeeze()) == [0, 0, 0]
    for place in (0, values.size // 2, values.size - 1):
        values.reshape(-1)[:] = 0.1
        values.reshape(-1)[place] = value
        seen = marks(values.squeeze())
        which = 2 if np.isnan(value) else 0 if value > 0 else 1
        assert seen.pop(which) >= 4
        assert seen == [0, 0]


@pytest.mark.parametrize("shape", MANY_PLANES)
def test_a_picture_of_planes_is_within_its_bounds_and_says_how_many_there_are(shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    html = shown(Tensor(values))
    high, wide = pixels_of(html).shape[:2]
    assert high <= 1.2 * 200
    assert wide <= 1.2 * 320
    drawn = values.squeeze()
    count = drawn[..., 0, 0].size
    assert (f"all {count} planes {drawn.shape[-2:]}" in html) == (drawn.ndim > 2)


def test_a_small_plane_has_a_tile_of_its_own_and_large_ones_share():
    assert "all 2048 planes (3, 3), row by row<" in shown(Tensor.ones(64, 32, 3, 3))
    html = shown(Tensor.ones(1000, 28, 28))
    assert "all 1000 planes (28, 28), 5 in each tile" in html
    assert "of (5, 2, 2) values the one furthest from zero" in html
    assert "each pixel" not in shown(Tensor.ones(30, 30))


def test_each_plane_is_where_its_number_says():
    values = np.arange(24, dtype=np.float32).reshape(8, 3, 1, 1) + np.zeros((8, 3, 40, 40))
    folded = fold(values.astype(np.float32))
    kept = folded.values[~folded.gaps]
    assert sorted(set(kept.tolist())) == list(range(24))
    rows = folded.values[~folded.gaps.all(1)][:, ~folded.gaps.all(0)]
    order = list(dict.fromkeys(rows[:: 40 if rows.shape[0] % 40 == 0 else 1].ravel().tolist()))
    assert order == list(range(24))
    across = len(set(rows[0].tolist()))
    assert across % 3 == 0 or 3 % across == 0


@given(
    shape=st.lists(st.integers(1, 60), min_size=2, max_size=4).map(tuple),
    place=st.integers(0, 10**9),
)
@settings(max_examples=60, deadline=None)
def test_the_furthest_value_is_in_every_picture(shape, place):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    values.reshape(-1)[place % values.size] = -99
    values = values.squeeze()
    if values.ndim < 2:
        return
    folded = fold(values)
    assert (folded.values == -99).any()
    assert np.abs(folded.values[~folded.gaps]).min() > 0
    assert not folded.nans.any()


def size_of(html):
    width, height = re.search(r'<img width="(\d+)" height="(\d+)"', html).groups()
    return int(width), int(height)


@pytest.mark.parametrize(
    "shape", [(300, 300), (30, 30), (600, 800), (800, 600), (1000, 1000), (25, 100), (210, 210)]
)
def test_a_plane_keeps_its_proportions(shape):
    html = shown(Tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32)))
    width, height = size_of(html)
    assert width / height == pytest.approx(shape[1] / shape[0], rel=0.05)
    assert max(width, height) >= 200
    pixels = pixels_of(html).shape
    assert width / height == pytest.approx(pixels[1] / pixels[0])


@pytest.mark.parametrize("shape", [(3, 100_000), (2, 500), (100_000, 3), (500, 2), (10_000, 40)])
def test_a_very_long_plane_can_be_seen(shape):
    width, height = size_of(shown(Tensor(np.random.default_rng(0).normal(size=shape))))
    assert 3 <= max(width, height) / min(width, height) <= 5
    assert min(width, height) >= 72
    assert (width > height) == (shape[1] > shape[0])


@pytest.mark.parametrize("shape", [(1, 100_000), (100_000, 1), (1, 1, 5000)])
def test_a_row_is_drawn_as_bars(shape):
    values = np.sin(np.arange(np.prod(shape)) / 500)
    assert size_of(shown(Tensor(values.reshape(shape)))) == size_of(shown(Tensor(values)))


def test_a_look_inside_a_captured_function_is_no_error():
    told = []

    @TinyJit
    def step(x):
        told.append((repr(x), repr(x + 1), x._repr_html_()))
        return (x + 1).realize()

    for n in range(4):
        assert step(Tensor([float(n)]).realize()).tolist() == [n + 1.0]
    assert len(told) == 2
    assert told[0][0].startswith("Tensor([0.]")
    assert told[1][0] == "<Tensor (1,) dtypes.float on CPU>"
    assert "during JIT capture" in told[1][2]
