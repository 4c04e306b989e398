"""A model of caches: sets, ways, least recently used out first; fed with the addresses of a run.

What is modelled: each level holds lines; a touch that misses a level goes on to the next and fills
all of them (stores too: write-allocate). First levels belong to a core, the last one to all. What
is not: prefetching, write-backs, address translation. Hits and misses are the same on every machine
and in every run, because the buffers lie at addresses of the model (`layout`).

The model is LLVM IR that is linked with the kernel: a call per row of an access.
"""

from __future__ import annotations

import functools
import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinylab.errors import CounterError

_SYS = "/sys/devices/system/cpu/cpu0/cache/index*"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_RESIDUES = 64  # sampling keeps whole sets: lines by their number modulo this
_FIRST = 1 << 20  # the address of the first buffer


@dataclass(frozen=True)
class Cache:
    """One level: bytes, ways, bytes of a line; whether all cores share it; who said so."""

    name: str
    size_bytes: int
    ways: int
    line_bytes: int = 64
    shared: bool = False
    source: str = "given"

    @property
    def sets(self) -> int:
        """How many sets the lines are spread over."""
        return self.size_bytes // (self.ways * self.line_bytes)


@functools.cache
def machine_caches() -> tuple[Cache, ...]:
    """The data caches of this machine, from its kernel's description of them; () if it has none."""
    found = []
    for text in sorted(glob.glob(_SYS)):
        try:
            found.append(_described(Path(text)))
        except (OSError, ValueError):  # a machine that tells less
            continue
    return tuple(sorted((c for c in found if c), key=lambda c: c.name))


def _described(place: Path) -> Cache | None:
    def read(name: str) -> str:
        return (place / name).read_text().strip()

    if read("type") == "Instruction":
        return None
    size, cpus = read("size"), read("shared_cpu_list")
    unit = size.lstrip("0123456789")
    return Cache(
        f"L{read('level')}",
        int(size.removesuffix(unit)) * _UNITS.get(unit, 1),
        int(read("ways_of_associativity")),
        int(read("coherency_line_size")),
        shared="," in cpus or "-" in cpus,
        source="machine",
    )


# What is modelled where a machine tells nothing: a common desktop processor.
COMMON = (
    Cache("L1", 32 << 10, 8, source="assumed"),
    Cache("L2", 1 << 20, 16, source="assumed"),
    Cache("L3", 32 << 20, 16, shared=True, source="assumed"),
)


def checked(caches: Sequence[Cache]) -> tuple[Cache, ...]:
    """The levels, first to last.

    Raises: CounterError for sizes that make no sets, or lines of different lengths.
    """
    if not caches:
        raise CounterError("a cache model needs a level", help='such as Cache("L1", 32 << 10, 8)')
    for cache in caches:
        whole = cache.ways > 0 and cache.line_bytes > 0 and cache.sets > 0
        if not whole or cache.sets * cache.ways * cache.line_bytes != cache.size_bytes:
            raise CounterError(
                f"{cache.name} of {cache.size_bytes} bytes is not a whole number of sets of "
                f"{cache.ways} lines of {cache.line_bytes} bytes"
            )
        if cache.line_bytes & (cache.line_bytes - 1) or cache.line_bytes != caches[0].line_bytes:
            raise CounterError(
                f"{cache.name} has lines of {cache.line_bytes} bytes: all levels have lines of one "
                "length, a power of two"
            )
    return tuple(caches)


def layout(sizes: Iterable[int]) -> list[int]:
    """Addresses for buffers of these sizes, aligned as the CPU device aligns them.

    Small ones stand on a multiple of 64 bytes, those of 128 KB or more on a page, of 4 MB or more
    on a huge page: tables whose rows are powers of two meet in the same sets, as in earnest.
    """
    found, free = [], _FIRST
    for size in sizes:
        align = 64 if size < 128 << 10 else 4096 if size < 4 << 20 else 2 << 20
        free = -(-free // align) * align
        found.append(free)
        free += max(size, 1)
    return found


def sampled_residues(caches: Sequence[Cache], touches: float, most: float) -> tuple[int, int]:
    """(bits of the residues that are simulated, how many there are) for so many touches.

    All of them while the touches are few; else whole sets are left out, chosen without a pattern
    that a stride could have, so that the sets which are kept are simulated exactly.
    """
    residues = _RESIDUES
    while any(c.sets % residues for c in caches):
        residues //= 2
    kept = residues
    while kept > 4 and touches * kept / residues > most:
        kept //= 2
    order = sorted(range(residues), key=lambda r: (r * 2654435761 + 0x9E37) % (1 << 32))
    return sum(1 << r for r in order[:kept]), residues


# *** the model as LLVM IR


@dataclass(frozen=True)
class Model:
    """Caches for a run: on `cores` cores, over addresses up to `end`, simulating some residues."""

    caches: tuple[Cache, ...]
    cores: int
    end: int
    kept: int  # bits: the residues that are simulated
    residues: int

    @property
    def words(self) -> int:
        """64-bit words of statistics per place: touches, simulated, cold, misses by level."""
        return 3 + len(self.caches)

    @property
    def scale(self) -> float:
        """What simulated misses stand for."""
        return self.residues / self.kept.bit_count()

    @property
    def spans(self) -> list[tuple[int, int]]:
        """(first tag, tags of one core) of each level, in the scratch memory."""
        found, at = [], 0
        for cache in self.caches:
            lines = cache.sets * cache.ways
            found.append((at, 0 if cache.shared else lines))
            at += lines * (1 if cache.shared else self.cores)
        return found

    @property
    def tags(self) -> int:
        """32-bit tags of all levels and cores."""
        return sum(c.sets * c.ways * (1 if c.shared else self.cores) for c in self.caches)

    @property
    def shift(self) -> int:
        """An address shifted by so much is its line."""
        return self.caches[0].line_bytes.bit_length() - 1

    @property
    def scratch_bytes(self) -> int:
        """Tags, and a byte per line of memory that says whether it was touched."""
        return 4 * self.tags + (self.end >> self.shift) + 1

    def ir(self, widths: Iterable[int]) -> str:
        """The functions: a line, a window, and lanes of these widths."""
        return "\n".join(
            [_line(self), _window(self), *(_lanes(self, n) for n in sorted(set(widths)))]
        )


def _line(model: Model) -> str:
    """`touch_line`: one line through the levels; counts for a place of the program."""
    text = [
        "define internal void @touch_line(ptr %stats, ptr %tags, i64 %site, i64 %line) noinline {",
        f"  %row.words = mul i64 %site, {model.words}",
        "  %row.at = add i64 %row.words, 1",
        "  %row = getelementptr i64, ptr %stats, i64 %row.at",
        *_increment("touched", "%row"),
    ]
    if model.scale > 1:
        text += [
            f"  %residue = and i64 %line, {model.residues - 1}",
            f"  %bits = lshr i64 {_signed(model.kept)}, %residue",
            "  %kept = trunc i64 %bits to i1",
            "  br i1 %kept, label %simulated, label %done",
            "simulated:",
        ]
    text += [*_increment("seen", "%row", 1), "  %core = load i64, ptr %stats"]
    text += ["  %tag = trunc i64 %line to i32"]
    for level in range(len(model.caches)):
        text += _level(model, level)
    text += [
        f"  %byte.at = add i64 %line, {4 * model.tags}",
        "  %byte = getelementptr i8, ptr %tags, i64 %byte.at",
        "  %old.byte = load i8, ptr %byte",
        "  %is.cold = icmp eq i8 %old.byte, 0",
        "  br i1 %is.cold, label %cold, label %done",
        "cold:",
        "  store i8 1, ptr %byte",
        *_increment("first", "%row", 2),
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(text)


def _signed(bits: int) -> int:
    """A 64-bit pattern as LLVM writes it."""
    return bits - (1 << 64) if bits >= 1 << 63 else bits


def _increment(name: str, base: str, word: int = 0) -> list[str]:
    return [
        f"  %{name}.p = getelementptr i64, ptr {base}, i64 {word}",
        f"  %{name}.old = load i64, ptr %{name}.p",
        f"  %{name}.new = add i64 %{name}.old, 1",
        f"  store i64 %{name}.new, ptr %{name}.p",
    ]


def _level(model: Model, level: int) -> list[str]:
    """One level: its set is a list, last used first; a hit ends the touch, a miss falls through."""
    cache, (first, span) = model.caches[level], model.spans[level]
    n, sets = str(level), cache.sets
    place = f"and i64 %line, {sets - 1}" if sets & (sets - 1) == 0 else f"urem i64 %line, {sets}"
    return [
        f"  %set{n} = {place}",
        f"  %ways{n} = mul i64 %set{n}, {cache.ways}",
        f"  %own{n} = mul i64 %core, {span}",
        f"  %sum{n} = add i64 %ways{n}, %own{n}",
        f"  %at{n} = add i64 %sum{n}, {first}",
        f"  %list{n} = getelementptr i32, ptr %tags, i64 %at{n}",
        f"  %head{n} = load i32, ptr %list{n}",
        f"  %is.head{n} = icmp eq i32 %head{n}, %tag",
        f"  br i1 %is.head{n}, label %done, label %begin{n}",
        f"begin{n}:",
        f"  store i32 %tag, ptr %list{n}",
        f"  br label %{'search' if cache.ways > 1 else 'miss'}{n}",
        *(_search(n, cache.ways) if cache.ways > 1 else []),
        f"miss{n}:",
        *_increment(f"miss{n}", "%row", 3 + level),
    ]


def _search(n: str, ways: int) -> list[str]:
    """Each tag moves back by one place, until the place of the one that came to the front."""
    return [
        f"search{n}:",
        f"  %i{n} = phi i64 [ 1, %begin{n} ], [ %next{n}, %further{n} ]",
        f"  %moved{n} = phi i32 [ %head{n}, %begin{n} ], [ %found{n}, %further{n} ]",
        f"  %p{n} = getelementptr i32, ptr %list{n}, i64 %i{n}",
        f"  %found{n} = load i32, ptr %p{n}",
        f"  store i32 %moved{n}, ptr %p{n}",
        f"  %is{n} = icmp eq i32 %found{n}, %tag",
        f"  br i1 %is{n}, label %done, label %further{n}",
        f"further{n}:",
        f"  %next{n} = add i64 %i{n}, 1",
        f"  %more{n} = icmp ult i64 %next{n}, {ways}",
        f"  br i1 %more{n}, label %search{n}, label %miss{n}",
    ]


def _window(model: Model) -> str:
    """`touch`: elements side by side, each line once."""
    return f"""
define internal void @touch(ptr %stats, ptr %tags, i64 %site, i64 %base, i64 %index, \
i64 %size, i64 %bytes, i1 %gate) noinline {{
  br i1 %gate, label %open, label %done
open:
  %ahead = mul i64 %index, %size
  %start = add i64 %base, %ahead
  %end = add i64 %start, %bytes
  %last.byte = sub i64 %end, 1
  %first = lshr i64 %start, {model.shift}
  %last = lshr i64 %last.byte, {model.shift}
  br label %loop
loop:
  %line = phi i64 [ %first, %open ], [ %next, %loop ]
  call void @touch_line(ptr %stats, ptr %tags, i64 %site, i64 %line)
  %next = add i64 %line, 1
  %more = icmp ule i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def _lanes(model: Model, width: int) -> str:
    """`touchN`: lanes at places of their own; neighbours on one line touch it once."""
    text = [
        f"define internal void @touch{width}(ptr %stats, ptr %tags, i64 %site, i64 %base, "
        f"<{width} x i64> %index, i64 %size, <{width} x i1> %gate) noinline {{",
        "  br label %lane0",
    ]
    for i in range(width):
        before = "[ 0, %0 ]" if i == 0 else f"[ %last{i - 1}, %next{i - 1} ]"
        text += [
            f"lane{i}:",
            f"  %before{i} = phi i64 {before}",
            f"  %is.open{i} = extractelement <{width} x i1> %gate, i64 {i}",
            f"  %index{i} = extractelement <{width} x i64> %index, i64 {i}",
            f"  %ahead{i} = mul i64 %index{i}, %size",
            f"  %start{i} = add i64 %base, %ahead{i}",
            f"  %line{i} = lshr i64 %start{i}, {model.shift}",
            f"  %is.other{i} = icmp ne i64 %line{i}, %before{i}",
            f"  %new{i} = and i1 %is.open{i}, %is.other{i}",
            f"  br i1 %new{i}, label %touch{i}, label %next{i}",
            f"touch{i}:",
            f"  call void @touch_line(ptr %stats, ptr %tags, i64 %site, i64 %line{i})",
            f"  br label %next{i}",
            f"next{i}:",
            f"  %last{i} = phi i64 [ %line{i}, %touch{i} ], [ %before{i}, %lane{i} ]",
            f"  br label %{f'lane{i + 1}' if i + 1 < width else 'done'}",
        ]
    return "\n".join([*text, "done:", "  ret void", "}"])
