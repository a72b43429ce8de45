"""Migration from implicit int8 to TensorRT 11: files, scripts, and a measurement of what changes."""

from intact.trt.migration.checkpoint_recipe import read_checkpoint
from intact.trt.migration.engines import Answers, LayerAnswer, OutputAnswer
from intact.trt.migration.implicit_recipe import ImplicitRecipe, read_ranges
from intact.trt.migration.migrate import Migration, edit_project, migrate, name_of, require_one_build
from intact.trt.migration.record_run import RecordedBuild, record
from intact.trt.migration.script_edits import OpenPoint, ScriptEdit

__all__ = [
    "Answers", "LayerAnswer", "Migration", "OpenPoint", "OutputAnswer", "ImplicitRecipe", "RecordedBuild",
    "ScriptEdit", "edit_project", "migrate", "name_of", "read_checkpoint", "read_ranges", "record",
    "require_one_build",
]  # fmt: skip
