"""Scripts written for tinygrad run unchanged: its name means tinylab.

    python -m tinylab.compat script.py      a script
    tinylab.compat.alias()                  the whole process
    %%tinygrad                              a cell

``table`` is the only place that says which foreign name lives where; `module` and `take` look names
up by it. An installed tinygrad is left as it is.
"""

from tinylab.compat.alias import alias as alias
from tinylab.compat.modules import (
    all_of as all_of,
    is_foreign as is_foreign,
    module as module,
    take as take,
)

__all__ = ["alias", "all_of", "is_foreign", "module", "take"]
