"""Tensors of several machines, brought together by a transport that exists already.

Each machine runs the same program on its own data. What they must agree on (weights at the start,
gradients in each step) goes through one class, `Transport`; mpi4py is the first that fits it.

    machines = MPITransport()
    broadcast(*weights, transport=machines)
    loss.backward()
    all_reduce(*(w.grad for w in weights), transport=machines)   # then divide by machines.size
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from tinylab.dtype import dtypes
from tinylab.errors import DeviceError, DTypeError
from tinylab.opcodes import Ops
from tinylab.tensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


class Transport(abc.ABC):
    """What carries arrays from machine to machine: the one seam that a library has to fit.

    rank: this machine's number, from 0. size: how many machines there are. Every machine makes the
    same calls in the same order, with arrays of the same shape and type.
    """

    rank: int
    size: int

    @abc.abstractmethod
    def all_reduce(self, data: Array, op: Ops) -> Array:
        """The arrays of all machines reduced by ADD, MUL or MAX, on every machine."""

    @abc.abstractmethod
    def all_gather(self, data: Array) -> list[Array]:
        """The array of each machine, by rank, on every machine."""

    @abc.abstractmethod
    def broadcast(self, data: Array, root: int) -> Array:
        """The array of one machine, on every machine."""

    @abc.abstractmethod
    def barrier(self) -> None:
        """Returns when every machine has come here."""


class MPITransport(Transport):
    """Machines started by mpirun, through mpi4py.

    Raises: DeviceError where mpi4py is missing.
    """

    def __init__(self, comm: Any = None) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as e:
            raise DeviceError(f"no MPI here: {e}", help="pip install mpi4py, and an MPI") from e
        self.comm = MPI.COMM_WORLD if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self._ops = {Ops.ADD: MPI.SUM, Ops.MUL: MPI.PROD, Ops.MAX: MPI.MAX}

    def all_reduce(self, data: Array, op: Ops) -> Array:
        """The arrays of all machines reduced, on every machine."""
        found = data.copy()
        self.comm.Allreduce(data, found, op=self._ops[op])
        return found

    def all_gather(self, data: Array) -> list[Array]:
        """The array of each machine, by rank, on every machine."""
        import numpy as np

        found = np.empty((self.size, *data.shape), data.dtype)
        self.comm.Allgather(data, found)
        return list(found)

    def broadcast(self, data: Array, root: int) -> Array:
        """The array of one machine, on every machine."""
        found = data.copy()
        self.comm.Bcast(found, root=root)
        return found

    def barrier(self) -> None:
        """Returns when every machine has come here."""
        self.comm.Barrier()


def all_reduce(*tensors: Tensor, transport: Transport, op: Ops = Ops.ADD) -> None:
    """Replace each tensor by what those of all machines reduce to.

    Halves are reduced as float32.
    """
    for t in tensors:
        wide = t.cast(dtypes.float32) if t.dtype in (dtypes.float16, dtypes.bfloat16) else t
        _become(t, transport.all_reduce(_array(wide), op))


def broadcast(*tensors: Tensor, transport: Transport, root: int = 0) -> None:
    """Replace each tensor by that of one machine."""
    for t in tensors:
        _become(t, transport.broadcast(_array(t), root))


def all_gather(t: Tensor, transport: Transport) -> list[Tensor]:
    """The tensor of each machine, by rank."""
    return [_like(t, found) for found in transport.all_gather(_array(t))]


def _array(t: Tensor) -> Array:
    """The values in one piece.

    Raises: DTypeError for a type that numpy lacks.
    """
    if t.dtype.fmt is None:
        raise DTypeError(f"{t.dtype} has no counterpart to send", help="cast it to float32")
    return t.numpy()


def _like(t: Tensor, data: Array) -> Tensor:
    found = Tensor(data).cast(t.dtype)
    return found.shard_like(t) if isinstance(t.device, tuple) else found.to(t.device)


def _become(t: Tensor, data: Array) -> None:
    t.assign(_like(t, data)).realize()
