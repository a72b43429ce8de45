"""What the pairs of a Q/DQ graph make run in int8."""

from __future__ import annotations

from intact.graph import Model
from intact.placement.layers import Fuser
from intact.placement.profiles import Profile, profile_of
from intact.placement.records import Placement
from intact.placement.view import View


def read_placement(model: Model, profile: str | Profile = "intact") -> Placement:
    """What runs in int8 in a graph that has Q/DQ pairs, fused into what, and why not.

    A layer runs in int8 when all its quantizable inputs come through DequantizeLinear: precision is what the
    file says.

    Args:
        model: Not changed.
        profile: What fuses: a name of `PROFILES`.
    Raises:
        QuantValueError: There is no such profile.
    """
    view, chosen = View(model), profile_of(profile)
    fuser = Fuser(view, chosen, quantized=view.marks.__contains__)
    return Placement((), fuser.layers(), chosen)
