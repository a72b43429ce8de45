"""Where Q/DQ pairs belong, what fuses with what, and why: rules as data over the graph."""

from intact.layer import Layer
from intact.placement.checks import check
from intact.placement.explain import explain
from intact.placement.place import place
from intact.placement.profiles import PROFILES, Profile, profile_of
from intact.placement.read import read_placement
from intact.placement.records import Finding, Fusion, Kept, Placement, Site

__all__ = [
    "Finding",
    "Fusion",
    "Kept",
    "Layer",
    "PROFILES",
    "Placement",
    "Profile",
    "Site",
    "check",
    "explain",
    "place",
    "profile_of",
    "read_placement",
]
