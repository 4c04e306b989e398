"""The methods of the tensor language, a topic each, written against a few primitives.

``base`` what a class must give · ``elementwise`` ``functions`` ``activation`` on elements ·
``movement`` ``windows`` ``padding`` ``rearrange`` views · ``creation`` values from nothing ·
``reduce`` ``scan`` along axes · ``indexing`` by number, slice and tensor · ``linalg`` ``conv``
``random`` ``norm`` ``loss`` ``sort`` ``image`` ``hashing`` · ``casts`` to a type.
"""

from tinylab.mixin.casts import CastsMixin
from tinylab.mixin.hashing import HashingMixin
from tinylab.mixin.rearrange import RearrangeMixin


class OpMixin(HashingMixin, RearrangeMixin, CastsMixin):
    """All methods of the language."""

    __slots__ = ()
