"""The options of `%%tinygrad`: parsing, help, completion."""

import difflib
import keyword
import shlex
from dataclasses import dataclass

HELP = """\
%%tinygrad [options]
Runs the cell, records what the compiler makes of it, and shows the debugger under it.

  --device DEV     the default device of this cell: CPU, PYTHON, NULL ...
  --noopt          compile kernels without optimisations
  --no-widget      no debugger: only run and record
  --name NAME      bind the record to a variable; of a profiled cell, NAME_profile to its profile
  --profile        also note when lines, passes, kernels and copies ran: a timeline beside the
                   debugger; `--profile counters` also counts what each kernel does
  --alias          `import tinygrad` in the cell means tinylab (the default)
  --no-alias       `import tinygrad` means an installed tinygrad
  --help           this text"""

FLAGS = ("--noopt", "--no-widget", "--alias", "--no-alias", "--help")
VALUED = ("--device", "--name")
_PROFILE = "--profile"
PROFILES = ("counters",)
DEVICES = ("CPU", "PYTHON", "NULL")


class OptionError(ValueError):
    """An option that is none, or lacks its value."""


@dataclass(frozen=True)
class Options:
    """How to run a cell."""

    device: str | None = None
    noopt: bool = False
    widget: bool = True
    name: str | None = None
    alias: bool = True
    help: bool = False
    profile: bool = False
    counters: bool = False


def parse(line: str) -> Options:
    """The options of a magic's line.

    "--device=NULL --noopt" -> Options(device="NULL", noopt=True)

    Raises: OptionError, with the nearest right name.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise OptionError(f"cannot read the options {line!r}: {error}") from None
    found: dict[str, str | bool] = {}
    while words:
        word, _, value = words.pop(0).partition("=")
        if word in found:
            raise OptionError(f"{word} is given twice")
        if word == _PROFILE:
            found[word] = _profile_value(value, words)
        elif word in VALUED:
            if not value and (not words or words[0].startswith("--")):
                raise OptionError(f"{word} needs a value, as in {word} {_example(word)}")
            found[word] = value or words.pop(0)
        elif word in FLAGS and not value:
            found[word] = True
        else:
            raise OptionError(_unknown(word))
    return _options(found)


def _options(found: dict[str, str | bool]) -> Options:
    name = found.get("--name")
    if isinstance(name, str) and (not name.isidentifier() or keyword.iskeyword(name)):
        raise OptionError(f"--name {name}: a variable cannot be called that")
    if {"--alias", "--no-alias"} <= found.keys():
        raise OptionError("--alias and --no-alias exclude each other: give one of them")
    device = found.get("--device")
    return Options(
        device=str(device) if device else None,
        noopt="--noopt" in found,
        widget="--no-widget" not in found,
        name=str(name) if name else None,
        alias="--no-alias" not in found,
        help="--help" in found,
        profile=_PROFILE in found,
        counters=found.get(_PROFILE) == "counters",
    )


def _profile_value(value: str, words: list[str]) -> str:
    """What `--profile` is followed by, taken from the words; "" for nothing."""
    if not value and words and not words[0].startswith("--"):
        value = words.pop(0)
    if value and value not in PROFILES:
        raise OptionError(f"--profile {value}: it is --profile alone, or --profile counters")
    return value


def _example(word: str) -> str:
    return "NULL" if word == "--device" else "rec"


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(word, [*FLAGS, *VALUED, _PROFILE], 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "%%tinygrad --help lists the options"
    return f"%%tinygrad has no option {word}; {hint}"


def complete(line: str) -> tuple[str, list[str]]:
    """The word at the end of a magic's line, and what it may become.

    "%%tinygrad --no" -> ("--no", ["--noopt", "--no-widget", "--no-alias"])
    "%%tinygrad --device=n" -> ("n", ["NULL"])
    """
    words = line.split()
    word = "" if line[-1:].isspace() else words.pop()
    name, is_valued, value = word.partition("=")
    if is_valued:
        return value, _values(name, value)
    before = words[-1] if words else ""
    if before in VALUED:
        return word, _values(before, word)
    names = [n for n in (*VALUED, _PROFILE, *FLAGS) if n.startswith(word) and n not in words]
    return word, (_values(before, word) if before == _PROFILE else []) + names


def _values(option: str, start: str) -> list[str]:
    """What an option's value may be; whatever the case of what is there."""
    known = {"--device": DEVICES, "--name": (_example("--name"),), _PROFILE: PROFILES}
    return [v for v in known.get(option, ()) if v.lower().startswith(start.lower())]
