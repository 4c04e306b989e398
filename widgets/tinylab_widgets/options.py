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
  --name NAME      bind the record to a variable
  --alias          `import tinygrad` in the cell means tinylab (the default)
  --no-alias       `import tinygrad` means an installed tinygrad
  --help           this text"""

FLAGS = ("--noopt", "--no-widget", "--alias", "--no-alias", "--help")
VALUED = ("--device", "--name")
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
        if word in VALUED:
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
    order = [word for word in found if word in ("--alias", "--no-alias")]
    device = found.get("--device")
    return Options(
        device=str(device) if device else None,
        noopt="--noopt" in found,
        widget="--no-widget" not in found,
        name=str(name) if name else None,
        alias=not order or order[-1] == "--alias",
        help="--help" in found,
    )


def _example(word: str) -> str:
    return "NULL" if word == "--device" else "rec"


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(word, [*FLAGS, *VALUED], 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "%%tinygrad --help lists the options"
    return f"%%tinygrad has no option {word}; {hint}"


def complete(line: str) -> list[str]:
    """What may follow at the end of a magic's line.

    "%%tinygrad --no" -> ["--noopt", "--no-widget", "--no-alias"]
    """
    words = line.split()
    ended = line.endswith(" ")
    before = words[-1] if ended and words else words[-2] if len(words) > 1 else ""
    word = "" if ended or not words else words[-1]
    if before == "--device":
        return [name for name in DEVICES if name.startswith(word.upper())]
    if before == "--name":
        return []
    used = words[1:] if ended else words[1:-1]
    return [name for name in (*VALUED, *FLAGS) if name.startswith(word) and name not in used]
