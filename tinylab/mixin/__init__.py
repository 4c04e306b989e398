"""The methods of the tensor language, a topic each, written against a few primitives.

``base`` what a class must give · ``elementwise`` ``functions`` ``activation`` on elements ·
``movement`` ``windows`` ``padding`` ``rearrange`` views · ``creation`` values from nothing ·
``reduce`` ``scan`` along axes · ``indexing`` by number, slice and tensor · ``linalg`` ``conv``
``random`` ``norm`` ``loss`` ``sort`` ``image``.
"""

from tinylab.mixin.image import ImageMixin
from tinylab.mixin.rearrange import RearrangeMixin


class OpMixin(ImageMixin, RearrangeMixin):
    """All methods of the language."""

    __slots__ = ()
