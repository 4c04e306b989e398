"""MNIST and CIFAR-10, from files that are already on this machine; nothing is downloaded.

Folders are looked through in this order: the one that DATASETS names, the working folder's `data`,
the caches of tinylab, tinygrad, PyTorch and Keras. `mnist(folder)` style arguments are not needed:
set DATASETS=/the/folder.
"""

from __future__ import annotations

import io
import os
import pathlib
import struct
from collections.abc import Iterator
from typing import Any

from tinylab.dtype import dtypes
from tinylab.errors import FetchError, FileFormatError
from tinylab.helpers.arguments import explained
from tinylab.helpers.cache import cache_dir
from tinylab.helpers.unpack import gunzipped
from tinylab.nn.files import tar_extract
from tinylab.tensor import Tensor
from tinylab.tensor.data import buffer_uop

Four = tuple[Tensor, Tensor, Tensor, Tensor]

_MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
          "t10k-labels-idx1-ubyte")  # fmt: skip
_CIFAR = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


@explained
def mnist(device: Any = None, fashion: bool = False) -> Four:
    """Handwritten digits, or pictures of clothes: 60000 to learn from, 10000 to test with.

    (training images (60000, 1, 28, 28), labels (60000,), test images, labels), all uint8

    Raises: FetchError where the files are nowhere; FileFormatError for damaged ones.
    """
    name = "FashionMNIST" if fashion else "MNIST"
    inside = [f"{name}/raw", name, name.lower(), "fashion-mnist" if fashion else "mnist"]
    folder = _folder(name, inside, _MNIST, plain=not fashion)
    images, labels, more_images, more_labels = (_idx(_found(folder, f), device) for f in _MNIST)
    return (
        images.reshape(images.shape[0], 1, *images.shape[1:]),
        labels,
        more_images.reshape(more_images.shape[0], 1, *more_images.shape[1:]),
        more_labels,
    )


@explained
def cifar(device: Any = None) -> Four:
    """Small coloured pictures of ten kinds (CIFAR-10), from its binary version.

    (training images (50000, 3, 32, 32), labels (50000,), test images, labels), all uint8

    Raises: FetchError where the files are nowhere; FileFormatError for damaged ones.
    """
    inside = ["cifar-10-batches-bin", "cifar10", "CIFAR10/cifar-10-batches-bin"]
    packed = next(
        (f for folder in _places([""]) if (f := folder / "cifar-10-binary.tar.gz").exists()), None
    )
    if packed is not None:
        files = {pathlib.PurePath(k).name: v for k, v in tar_extract(packed).items()}
        missing = [f for f in _CIFAR if f not in files]
        if missing:
            raise FileFormatError(f"{packed} lacks {missing[0]}")
        parts = [bytes(files[f].data()) for f in _CIFAR]
    else:
        folder = _folder("CIFAR-10", inside, _CIFAR)
        parts = [_found(folder, f).read_bytes() for f in _CIFAR]
    pictures = [_batch(p, device) for p in parts]
    first, *rest = pictures[:5]
    return (
        first[0].cat(*(p[0] for p in rest)),
        first[1].cat(*(p[1] for p in rest)),
        *pictures[5],
    )


def _batch(raw: bytes, device: Any) -> tuple[Tensor, Tensor]:
    size = 1 + 3 * 32 * 32
    if not raw or len(raw) % size:
        raise FileFormatError(f"{len(raw)} bytes are no whole pictures of CIFAR-10")
    rows = Tensor(raw, device=device).reshape(-1, size)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def _idx(path: pathlib.Path, device: Any) -> Tensor:
    """A file of bytes in the idx format: two zeros, the type, the number of axes, their sizes."""
    raw = path.read_bytes()
    try:
        raw = gunzipped(raw, str(path)) if raw[:2] == b"\x1f\x8b" else raw
        file = io.BytesIO(raw)
        zeros, kind, axes = struct.unpack(">HBB", file.read(4))
        shape = struct.unpack(f">{axes}I", file.read(4 * axes))
    except struct.error as e:
        raise FileFormatError(f"{path} is no idx file: {e}") from e
    body = file.read()
    count = 1
    for size in shape:
        count *= size
    if zeros or kind != 8 or len(body) != count:
        raise FileFormatError(f"{path} is damaged: {len(body)} bytes for {shape} of type {kind}")
    place = Tensor(0.0, device=device, dtype=dtypes.uint8).device
    return Tensor(buffer_uop(body, dtypes.uint8, shape, str(place)))


# *** where files are


def _places(inside: list[str]) -> Iterator[pathlib.Path]:
    own = os.environ.get("DATASETS")
    home, cache = pathlib.Path.home(), pathlib.Path(cache_dir)
    roots = [
        *([pathlib.Path(own)] if own else []),
        pathlib.Path("data"),
        cache / "downloads",
        cache.parent / "tinygrad" / "downloads",
        home / ".cache" / "torch" / "data",
        home / ".keras" / "datasets",
    ]
    for root in roots:
        for name in inside:
            yield root / name


def _folder(
    what: str, inside: list[str], files: tuple[str, ...], plain: bool = True
) -> pathlib.Path:
    places = list(_places([*inside, ""] if plain else inside))
    for folder in places:
        if all(_candidates(folder, f) for f in files):
            return folder
    raise FetchError(
        f"{what} is not on this machine: no folder has {files[0]} and the other files",
        help=f"put them into a folder and set DATASETS to it; looked in {places[0]} and "
        f"{len(places) - 1} more",
    )


def _candidates(folder: pathlib.Path, name: str) -> list[pathlib.Path]:
    names = (name, name + ".gz", name.replace("-idx", ".idx"), name.replace("-idx", ".idx") + ".gz")
    return [p for n in names if (p := folder / n).is_file()]


def _found(folder: pathlib.Path, name: str) -> pathlib.Path:
    return _candidates(folder, name)[0]
