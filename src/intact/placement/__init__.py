"""Placement of Q/DQ pairs and fusion of layers, with reasons: rules as data over the graph."""

from intact.layer import Layer
from intact.placement.activations import Activation, activation_behind
from intact.placement.checks import check
from intact.placement.checks.export_for import export_for
from intact.placement.float_steps import (
    AGREEMENT_KEY,
    float_steps,
    in_other_runtimes,
    record_agreement,
)
from intact.placement.formats import in_formats, with_layers_of
from intact.placement.place import place
from intact.placement.placement_graph import View, is_pair, may_be_float, shape_of
from intact.placement.profiles import PROFILES, Profile, profile_of
from intact.placement.read_pairs import read_placement
from intact.placement.records import Finding, Fusion, Kept, Placement, Site, explain
from intact.placement.rules.base import WIDE
from intact.placement.rules.weighted import weight_axis
from intact.placement.scales import tensor_scales

__all__ = [
    "AGREEMENT_KEY", "PROFILES", "WIDE", "Activation", "Finding", "Fusion", "Kept", "Layer",
    "Placement", "Profile", "Site", "View", "activation_behind", "check", "explain", "export_for",
    "float_steps", "in_formats", "in_other_runtimes", "is_pair", "may_be_float", "place", "profile_of",
    "read_placement", "record_agreement", "shape_of", "tensor_scales", "weight_axis", "with_layers_of",
]  # fmt: skip
