"""Completion of the options of `%%tinygrad`, and of nothing else on its line."""

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell

from tinylab_widgets import options

_MAGIC = "%%tinygrad"


@context_matcher(identifier="tinylab.options", priority=100)  # type: ignore[untyped-decorator]
def match_options(context: CompletionContext) -> SimpleMatcherResult:
    """What may follow on the magic's line; elsewhere nothing, and other matchers go on.

    A word that none of our options begins with stays as it is: what Python has of that name would
    be wrong here.
    """
    before = context.text_until_cursor
    if not _is_options_line(context) or not before.startswith((f"{_MAGIC} ", f"{_MAGIC}\t")):
        return {"completions": [], "suppress": False}
    word, found = options.complete(before)
    texts = found or ([word] if word else [])
    return {
        "completions": [SimpleCompletion(text=text, type="magic") for text in texts],
        "matched_fragment": word,
        "ordered": True,
        "suppress": True,
    }


def _is_options_line(context: CompletionContext) -> bool:
    """Whether the cursor is in the first line that is not empty, where cell magics stand."""
    lines = context.full_text.split("\n")[: context.cursor_line]
    return not any(line.strip() for line in lines)


def install(shell: InteractiveShell) -> None:
    """Complete options in a shell; a second time changes nothing."""
    remove(shell)
    shell.Completer.custom_matchers.append(match_options)


def remove(shell: InteractiveShell) -> None:
    """Complete them no longer."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [each for each in matchers if each is not match_options]
