"""The event space of a topic: boxes, points, and the dz-expressions that name parts of it.

A space is halved, one attribute after the other, without end. A dz-expression says which half was taken each
time: "" is the whole space, "0" the lower half of the first attribute, "01" the upper half of the second
within that. Read `expressions`, then `wildcards`, `attributes` and `spaces`; `arrays` is the same for many at
once, and `kernels` what of it is compiled. Nothing here knows of networks, joins or files.
"""

from __future__ import annotations

from tidings.space.spaces import Decomposed, Space

__all__ = ["Decomposed", "Space"]
