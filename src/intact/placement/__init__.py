"""Where Q/DQ pairs belong, what fuses with what, and why: rules as data over the graph."""

from intact.layer import Layer
from intact.placement.checks import check
from intact.placement.explain import explain
from intact.placement.float_steps import (
    AGREEMENT_KEY,
    agreement,
    float_steps,
    in_other_runtimes,
    record_agreement,
)
from intact.placement.formats import in_formats, with_layers_of
from intact.placement.place import place
from intact.placement.profiles import PROFILES, Profile, profile_of
from intact.placement.read_pairs import read_placement
from intact.placement.records import Finding, Fusion, Kept, Placement, Site

__all__ = [
    "AGREEMENT_KEY",
    "Finding",
    "Fusion",
    "Kept",
    "Layer",
    "PROFILES",
    "Placement",
    "Profile",
    "Site",
    "agreement",
    "check",
    "explain",
    "float_steps",
    "in_formats",
    "in_other_runtimes",
    "place",
    "profile_of",
    "read_placement",
    "record_agreement",
    "with_layers_of",
]
