"""Which cells show which viewers: a viewer whose outputs were all replaced is closed.

Without this each run of a cell would leave its widget in the kernel, and in the saved notebook.
"""

from tinylab_widgets.viewer import Viewer


class Displays:
    """Viewers by the cells that show them."""

    def __init__(self) -> None:
        self._cell: str | None = None
        self._cells_of: dict[Viewer, set[str | None]] = {}

    def begin(self, cell_id: str | None) -> None:
        """A cell starts to run: what it showed is replaced."""
        self._cell = cell_id
        if cell_id is None:  # a front end that names no cells: nothing is known to be replaced
            return
        for shown, cells in list(self._cells_of.items()):
            cells.discard(cell_id)
            if not cells:
                del self._cells_of[shown]
                shown.close()

    def note(self, shown: Viewer) -> None:
        """The running cell shows this viewer."""
        self._cells_of.setdefault(shown, set()).add(self._cell)

    def __len__(self) -> int:
        return len(self._cells_of)
