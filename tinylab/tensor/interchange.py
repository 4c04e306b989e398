"""Values out of tensors and into them: numbers, lists, arrays of other libraries, files."""

from __future__ import annotations

import contextlib
import math
import pathlib
from typing import TYPE_CHECKING, Any

from tinylab.dtype import DType, DTypeLike, PyConst, dtypes, strong_dtype, to_dtype
from tinylab.engine.buffers import memory_at
from tinylab.errors import ContractError, CreationError, DeviceError, OperandError
from tinylab.helpers.cache import fetch
from tinylab.helpers.memory import mv_address
from tinylab.mixin.base import as_shape, shape_text, size_text
from tinylab.tensor import data as host, disk, dlpack
from tinylab.tensor.core import canonical
from tinylab.tensor.decompositions import TensorDecompositions
from tinylab.uop.ops import UOp

if TYPE_CHECKING:
    from typing import Self

    import numpy

    from tinylab.device import Buffer


class TensorInterchange(TensorDecompositions):
    """What gives values to others and takes theirs."""

    __slots__ = ()

    if TYPE_CHECKING:
        # What Tensor has and this part of it leans on.
        _stored: Any
        _is_stored: Any
        to: Any

    # *** out

    def _memory(self) -> Buffer | None:
        """The memory of the values in one piece, computed if need be; None for no values."""
        if not all(isinstance(s, int) for s in self.shape):
            raise ContractError(
                f"no data if shape is symbolic, {shape_text(self.shape)}",
                help="shrink to a size that is a number",
            )
        if self.numel() == 0:
            return None
        if isinstance(self.device, tuple):
            whole: Self = self.to(self.device[0])
            return whole._memory()
        if disk.on_disk(self.device):
            return disk.viewed(self.uop) or self.to("CPU")._memory()
        found: Buffer | None = memory_at(self._stored().uop)
        return found

    def _bytes(self) -> memoryview:
        """A copy of the values."""
        found = self._memory()
        return memoryview(b"") if found is None else found.as_memoryview()

    def _shared_bytes(self) -> memoryview:
        """The values themselves where the process can see them; the view keeps them alive."""
        found = self._memory()
        if found is None:
            return memoryview(b"")
        view = found.as_memoryview(allow_zero_copy=True)
        with contextlib.suppress(AttributeError, TypeError):
            view.obj.owner = found  # type: ignore[attr-defined]
        return view

    def data(self) -> memoryview:
        """The values as a memoryview of this shape, which shares the tensor's memory.

        A write into one is seen in the other, where the device's memory is this process' own (CPU)
        and the tensor is stored in one piece; elsewhere it is a copy. `numpy` always copies.
        """
        shape = self.shape if self.numel() else None
        return host.with_format(self._shared_bytes(), strong_dtype(self.dtype), shape)

    def item(self) -> PyConst:
        """The only value as a Python number.

        Raises: ContractError unless there is exactly one.
        """
        if self.numel() != 1:
            raise ContractError(
                f"must have one element for item, but shape {shape_text(self.shape)} has "
                f"{size_text(self.numel())}",
                help="use .tolist() for more",
            )
        return host.unpack(self._bytes(), strong_dtype(self.dtype))[0]  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """The values as nested lists; one number for shape ()."""
        return host.nested(host.unpack(self._bytes(), strong_dtype(self.dtype)), self.shape)

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The values as a numpy array of their own; types that numpy lacks become float32."""
        view = self._bytes()
        return host.to_numpy(view, strong_dtype(self.dtype), self.shape)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """What numpy.asarray asks for: it shares memory unless copy is True or the type changes.

        Raises: ValueError where copy=False cannot be had.
        """
        own = strong_dtype(self.dtype)
        view = self._bytes() if copy or own.fmt is None else self._shared_bytes()
        found = host.to_numpy(view, own, self.shape)
        wanted = found.dtype if dtype is None else dtype
        if copy is False and (own.fmt is None or found.dtype != wanted):
            raise ValueError(f"an array of {wanted} cannot share the memory of a tensor of {own}")
        return found.astype(wanted, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the values are, as DLPack names it: the memory of this process."""
        return (dlpack.CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The values for another library, which shares the tensor's memory where it can.

        numpy.from_dlpack(x), torch.from_dlpack(x)

        Raises: BufferError where copy=False cannot be had, or another device is wanted.
        """
        if dl_device is not None and tuple(dl_device) != (dlpack.CPU, 0):
            raise BufferError(f"a tensor on {self.device} cannot be given to device {dl_device}")
        source = self if not copy else self._copied()
        view = source._shared_bytes()
        if copy is False and not str(self.device).startswith("CPU"):
            raise BufferError(f"the memory of {self.device} cannot be shared: copy=False")
        versioned = max_version is not None and max_version[0] >= 1
        dtype = strong_dtype(self.dtype)
        return dlpack.capsule_of(mv_address(view), self.shape, dtype, view, versioned)

    def _copied(self) -> Self:
        """The values in memory of their own."""
        data = self._bytes()
        return self._from_uop(
            host.buffer_uop(data, strong_dtype(self.dtype), self.shape, canonical("CPU"))
        )

    # *** in

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The bits read as another element type; a window of a file stays one."""
        wanted = to_dtype(dtype)
        if disk.on_disk(self.device) and wanted is not self.dtype:
            found = disk.rebits(self.uop, wanted)
            if found is not None:
                return self._from_uop(found)
        return super().bitcast(wanted)

    @classmethod
    def from_dlpack(cls, array: Any) -> Self:
        """A tensor that shares the memory of an array on the CPU.

        One with gaps is copied, and one that may only be read.

        Tensor.from_dlpack(numpy.zeros(3)); a write into one is seen in the other.

        Raises: DeviceError for memory elsewhere; DTypeError for a type that tinylab lacks;
        CreationError for what does not speak DLPack.
        """
        taken = dlpack.take(array)
        if taken is None:
            import numpy as np

            copied = np.ascontiguousarray(np.from_dlpack(array))
            return cls._from_uop(host.numpy_uop(copied, None, "CPU"))
        if math.prod(taken.shape) == 0:
            zero = UOp.const(0, taken.buffer.dtype)
            return cls._from_uop(zero._expand_front(taken.shape))
        lying = tuple(taken.shape[i] for i in taken.order)
        found = cls._from_uop(UOp.from_buffer(taken.buffer)._reshape(lying))
        return found.permute(tuple(taken.order.index(i) for i in range(len(lying))))

    @classmethod
    def from_blob(cls, ptr: int, shape: tuple[int, ...], **kwargs: Any) -> Self:
        """A tensor over memory of this process, from an address; whoever asks keeps it alive.

        kwargs: dtype, device.

        Raises: CreationError for no address, or one that the type cannot stand at; DeviceError for
        a device other than the CPU; OperandError for any other keyword.
        """
        dtype, device = kwargs.pop("dtype", None), kwargs.pop("device", None)
        if kwargs:
            raise OperandError(f"from_blob takes dtype and device, not {sorted(kwargs)}")
        own: DType = dtypes.default_float if dtype is None else to_dtype(dtype)
        place = canonical(device if device is not None else "CPU")
        if str(place).split(":")[0] != "CPU":
            raise DeviceError(f"{place} cannot use memory of this process", help='device="CPU"')
        if ptr <= 0 or ptr % own.itemsize:
            raise CreationError(f"no {own} can stand at address {ptr:#x}")
        sizes = as_shape((shape,))
        memory = dlpack.view_memory(ptr, math.prod(sizes), own, None)
        return cls._from_uop(UOp.from_buffer(memory)._reshape(sizes))

    @classmethod
    def from_url(cls, url: str, gunzip: bool = False, **kwargs: Any) -> Self:
        """The bytes of a file, fetched once and kept; takes what the constructor takes.

        Raises: FetchError where it cannot be had.
        """
        made: Any = cls  # its constructor is Tensor's
        return made(pathlib.Path(fetch(url, gunzip=gunzip)), **kwargs)  # type: ignore[no-any-return]

    def decode_hevc_frame(
        self, frame_pos: Any, shape: Any, state: Any, ref_frames: Any = None
    ) -> Self:
        """A frame of a video: needs a decoder in hardware, which no device here has.

        Raises: DeviceError always.
        """
        raise DeviceError(
            f"{self.device} has no video decoder for a frame of shape {shape}",
            help="decode the video elsewhere and make a tensor of its frames",
        )

    # *** for people

    def _repr_html_(self) -> str:
        """What a notebook shows: values with colours, or a picture where there are many."""
        from tinylab.tensor import display

        seen: Any = self
        return display.html_of(seen)
