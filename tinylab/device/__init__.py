"""Devices by name, and what each of them gives: memory, a renderer, a compiler, programs to call.

    dev = Device["CPU"]                       # opened once, canonical name
    out = Buffer("CPU", 4, dtypes.float32).allocate()
    lib = dev.compiler.compile_cached(text)
    prg = dev.runtime(TinyELF(lib, "kernel", dev.renderer.target, signature))
    prg(out.get_buf("CPU"), global_size=(1, 1, 1), vals=())

A device lives in ``runtime/ops_<name>.py`` and is loaded when it is first asked for; so are the
renderers and compilers that its table of toolchains names.
"""

from tinylab.device.buffer import (
    Allocator as Allocator,
    Buffer as Buffer,
    BufferSpec as BufferSpec,
    LostBuffer as LostBuffer,
    LRUAllocator as LRUAllocator,
    Owner as Owner,
)
from tinylab.device.multi import MultiBuffer as MultiBuffer
from tinylab.device.program import (
    Compiled as Compiled,
    Compiler as Compiler,
    DeviceType as DeviceType,
    Program as Program,
    TinyELF as TinyELF,
    Toolchain as Toolchain,
)
from tinylab.device.registry import (
    ALL_DEVICES as ALL_DEVICES,
    Device as Device,
    canonicalize_device as canonicalize_device,
    enumerate_devices_str as enumerate_devices_str,
)
from tinylab.errors import CompileError as CompileError
from tinylab.helpers.arguments import (
    explained_methods as _explained_methods,
    explained_names as _explained_names,
)

_explained_names(globals())
_explained_methods(Buffer)
_explained_methods(type(Device))
