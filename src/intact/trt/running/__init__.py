"""Engines, their contexts and inspectors, and the runtime that reads them."""

from intact.trt.running.layer_report import (
    describe_performance,
    describe_profile,
    output_rows,
    profile_rows,
    time_rows,
)

__all__ = [
    "describe_performance", "describe_profile", "output_rows", "profile_rows", "time_rows",
]  # fmt: skip
