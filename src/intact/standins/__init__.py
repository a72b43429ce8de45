"""Lets INTact stand in for packages that scripts import under other names."""

from intact.standins.distribution_metadata import StandInDistribution, register_distribution
from intact.standins.run_script import run_script

__all__ = [
    "StandInDistribution", "register_distribution", "run_script",
]  # fmt: skip
