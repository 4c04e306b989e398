"""What scripts take from the foreign scheduler that here belongs to the engine."""

from __future__ import annotations

from tinylab.engine.realize import create_linear_with_vars, schedule_cache

__all__ = ["create_linear_with_vars", "schedule_cache"]
