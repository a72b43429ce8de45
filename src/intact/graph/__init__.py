"""Additions to onnx-ir: safe reading and writing, rewrites with reasons, Q/DQ emission, running.

The graph in memory is onnx-ir's Model. This is the only room that imports onnx and onnx_ir.
"""

import intact.graph._onnx_ir  # noqa: F401

# isort: split
from onnx_ir import DataType, Graph, Model, Node, Value

from intact.graph import pipelines
from intact.graph.core.build import Inserter, Namer, hand_over, inserter_at, new_constant, replace, take_place
from intact.graph.core.check_tensors import UNKNOWN_SIZE
from intact.graph.core.common_subexpressions import merge_common_subexpressions
from intact.graph.core.constants import Constants, evaluate_call
from intact.graph.core.edit import (
    hold_constants,
    input_of,
    last_size,
    own_weights,
    separate_names,
    set_initializer,
    set_shape,
    share_initializers,
)
from intact.graph.core.error_text import naming_errors
from intact.graph.core.extract import cut, cut_nodes, nodes_between, part
from intact.graph.core.float_values import float_value, float_value_of
from intact.graph.core.invariants import check_after, check_graph
from intact.graph.core.proto import forget_domain, to_proto
from intact.graph.core.prune import lift_constants, prune
from intact.graph.core.quantization_view import (
    QuantizedValue,
    is_op,
    only_reader,
    quantization_of,
    quantized_bias_of,
)
from intact.graph.core.scene import Note
from intact.graph.core.serialized_weights import raw_weights, weights_in, with_weights
from intact.graph.core.session import BoundInputs, Session
from intact.graph.files.ep_context import CompiledValue, compose_ep_context
from intact.graph.files.external import data_files
from intact.graph.files.fallback_models import check_fallback
from intact.graph.files.io import PicklableModel, parse_model, read_model, tidy, to_bytes, write_model
from intact.graph.files.load import Source, load
from intact.graph.files.model_builder import DTYPES, Composer
from intact.graph.files.model_parts import Parts, output_types, parts_of, take_floats_for_doubles
from intact.graph.files.node_times import node_seconds
from intact.graph.files.save import save
from intact.graph.files.typed_model_builder import STORED, TypedComposer
from intact.graph.infer.branches import (
    SIDES,
    Branch,
    branches_of,
    constants_of,
    deciding_inputs,
    extract_section,
    graft,
    ifs_by_input,
    inputs_behind,
    outer_values,
    read_values,
)
from intact.graph.infer.custom_operators import register_operator
from intact.graph.infer.data_dependent_shapes import find_data_dependent_shapes, size_inputs
from intact.graph.infer.inference import DOUBTFUL, forget_doubtful_names, refresh_shapes
from intact.graph.infer.layer_sizes import axes_in_front, layer_sizes
from intact.graph.infer.specialize import specialize
from intact.graph.infer.unknown_operators import ForeignNode, rename_foreign
from intact.graph.ops.attributes import inner_graphs, subgraphs
from intact.graph.opset.downgrade import (
    MIN_OPSET,
    NATIVE_OPSET,
    check_opset,
    oldest_opset,
    set_opset,
)
from intact.graph.opset.upgrade import MAX_OPSET, upgrade_opset
from intact.graph.pipelines import normalize
from intact.graph.qdq.batchnorm import BATCHNORM as fold_batchnorm
from intact.graph.qdq.block_tables import BlockTable, read_block_table
from intact.graph.qdq.block_weights import find_block_weights, is_block_operator, read_block_weight
from intact.graph.qdq.dynamic_layers import DYNAMIC as float_dynamic
from intact.graph.qdq.dynamic_layers import StoredCodes, codes_behind, has_stored_codes, is_dynamic
from intact.graph.qdq.emit_qdq import (
    FORMAT_OPSETS,
    QUANTIZER_KEY,
    REASON_KEY,
    Pair,
    check_format,
    emit_qdq,
    opset_of_markers,
)
from intact.graph.qdq.insert_markers import Mark, mark
from intact.graph.qdq.markers import marker_schema
from intact.graph.qdq.named_pairs import NamedPair, QuantizerCall, read_named_pairs
from intact.graph.qdq.softmax_guards import find_guarded_softmax
from intact.graph.qdq.strip_qdq import Stripped, has_few_bits, strip_dynamic, strip_qdq
from intact.graph.qdq.tensorrt.block_scales import (
    LARGEST_CODES,
    at_most_one_unknown,
    codes_and_scales,
    in_blocks,
    round_to_type,
)
from intact.graph.qdq.tensorrt.dynamic_pairs import write_block_pairs
from intact.graph.qdq.tensorrt.insert_quantizers import BlockScales, QuantizerWriter, insert_behind
from intact.graph.rewrites.group_query_attention import cache_limitation, narrow_caches
from intact.graph.rewrites.inline_functions import inline_functions
from intact.graph.rewrites.rewrite import Outcome, Pass, Rewrite, Scene, Stage, run_stages, silent
from intact.graph.rewrites.widen_float16 import bfloat16_values, widen_float16, widen_ports

__all__ = [
    "UNKNOWN_SIZE",
    "layer_sizes",
    "BlockScales",
    "BlockTable",
    "BoundInputs",
    "Branch",
    "CompiledValue",
    "Composer",
    "Constants",
    "float_value",
    "float_value_of",
    "DOUBTFUL",
    "DTYPES",
    "DataType",
    "FORMAT_OPSETS",
    "ForeignNode",
    "Graph",
    "Inserter",
    "StoredCodes",
    "codes_behind",
    "MAX_OPSET",
    "MIN_OPSET",
    "Mark",
    "Model",
    "NATIVE_OPSET",
    "LARGEST_CODES",
    "QuantizerWriter",
    "insert_behind",
    "Namer",
    "Node",
    "Note",
    "Outcome",
    "Pair",
    "PicklableModel",
    "Parts",
    "Pass",
    "QUANTIZER_KEY",
    "REASON_KEY",
    "QuantizedValue",
    "Rewrite",
    "SIDES",
    "STORED",
    "TypedComposer",
    "bfloat16_values",
    "Scene",
    "QuantizerCall",
    "Session",
    "Source",
    "Stage",
    "Stripped",
    "NamedPair",
    "Value",
    "axes_in_front",
    "branches_of",
    "check_after",
    "check_fallback",
    "check_format",
    "check_graph",
    "check_opset",
    "compose_ep_context",
    "cut",
    "cut_nodes",
    "data_files",
    "find_data_dependent_shapes",
    "deciding_inputs",
    "emit_qdq",
    "evaluate_call",
    "extract_section",
    "find_block_weights",
    "float_dynamic",
    "fold_batchnorm",
    "graft",
    "hand_over",
    "find_guarded_softmax",
    "has_few_bits",
    "has_stored_codes",
    "hold_constants",
    "inline_functions",
    "inner_graphs",
    "inputs_behind",
    "is_block_operator",
    "is_dynamic",
    "input_of",
    "inserter_at",
    "last_size",
    "is_op",
    "naming_errors",
    "merge_common_subexpressions",
    "lift_constants",
    "load",
    "mark",
    "marker_schema",
    "new_constant",
    "node_seconds",
    "nodes_between",
    "normalize",
    "oldest_opset",
    "only_reader",
    "opset_of_markers",
    "subgraphs",
    "own_weights",
    "parse_model",
    "part",
    "outer_values",
    "constants_of",
    "read_values",
    "output_types",
    "parts_of",
    "take_floats_for_doubles",
    "take_place",
    "pipelines",
    "prune",
    "quantization_of",
    "rename_foreign",
    "quantized_bias_of",
    "cache_limitation",
    "narrow_caches",
    "upgrade_opset",
    "raw_weights",
    "read_block_table",
    "read_block_weight",
    "read_model",
    "forget_domain",
    "forget_doubtful_names",
    "refresh_shapes",
    "register_operator",
    "replace",
    "run_stages",
    "save",
    "ifs_by_input",
    "separate_names",
    "set_initializer",
    "set_opset",
    "set_shape",
    "share_initializers",
    "silent",
    "size_inputs",
    "specialize",
    "strip_qdq",
    "strip_dynamic",
    "read_named_pairs",
    "tidy",
    "to_bytes",
    "to_proto",
    "write_model",
    "weights_in",
    "widen_float16",
    "widen_ports",
    "with_weights",
    "at_most_one_unknown",
    "codes_and_scales",
    "in_blocks",
    "round_to_type",
    "write_block_pairs",
]
