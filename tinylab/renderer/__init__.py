"""PROGRAM's linear uops to text for a target; this face exports what is shared by all targets."""

from tinylab.renderer.base import Renderer
from tinylab.renderer.estimates import Estimates

__all__ = ["Estimates", "Renderer"]
