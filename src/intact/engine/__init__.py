"""The engine: a Q/DQ model becomes a plan of lowered steps, and runs in int8 exactly as simulated."""

from intact.engine.build import compile, load, run_reference
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.steps import Codes, Epilogue, Step, Tensor

__all__ = ["Codes", "Epilogue", "Engine", "Plan", "Step", "Tensor", "compile", "load", "run_reference"]
