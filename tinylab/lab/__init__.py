"""What a front end may do: run a cell, ask about its record, save it, report it."""

from tinylab.lab.cells import CellRun as CellRun, run_cell as run_cell
from tinylab.lab.desk import Desk as Desk, answer as answer, desk_of as desk_of
