"""Snapshots as files of their own, named by what they hold."""

from __future__ import annotations

from typing import Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class WholeFile(SingleFileSnapshotExtension):
    """__snapshots__/test_llvm/test_module.tile_wide.ll for snapshot(name="tile_wide")."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_snapshot_name(cls, *, test_location: Any, index: Any = 0) -> str:
        return f"{test_location.methodname}.{index}"
