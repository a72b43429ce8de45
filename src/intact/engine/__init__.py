"""The engine: a Q/DQ model becomes a plan of lowered steps, and runs in int8 exactly as simulated."""

from intact.engine.backend import Backend, Options
from intact.engine.build import compile, load, run_reference
from intact.engine.custom import Operator, OutputGrid, Quantized, find, register
from intact.engine.engine import Engine, Port
from intact.engine.ep_context import require_native, save_ep_context
from intact.engine.plan import Plan
from intact.engine.profile import COLUMNS
from intact.engine.steps import Codes, Epilogue, Step, Tensor
from intact.engine.user_arrays import as_input

__all__ = [
    "COLUMNS", "Backend", "Codes", "Engine", "Epilogue", "Operator", "Options", "OutputGrid", "Plan", "Port",
    "Quantized", "Step", "Tensor", "as_input", "compile", "find", "load", "register", "require_native",
    "run_reference", "save_ep_context",
]  # fmt: skip
