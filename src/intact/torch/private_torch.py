"""The parts of torch and onnxscript that their documentation does not promise, under names of ours.

A new version of torch may move or drop any of them. Then this module changes, and no other one.
`tests/torch/test_private_torch.py` resolves each name in the installed version. It fails for private names
of torch in other modules. Parts that nothing works without are imported. `TorchPart` names the others: they
make an export faster or more exact, and are skipped in a torch that lacks them.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor, fx, nn

from intact.errors import UnsupportedError

try:
    import torch._functorch.config
    from torch._C import DisableTorchFunction, DisableTorchFunctionSubclass
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch._ops import OperatorBase, OpOverload
    from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
    from torch._subclasses.functional_tensor import FunctionalTensorMode
    from torch.export._trace import _export
    from torch.fx import _symbolic_trace
    from torch.fx.experimental import _config as _symbolic_shapes_config
    from torch.jit._trace import TracerWarning
    from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
    from torch.nn.modules.conv import _ConvNd as ConvNd
    from torch.nn.modules.conv import _ConvTransposeNd as ConvTransposeNd
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
except (ImportError, AttributeError) as error:
    raise UnsupportedError(
        "torch", f"version {torch.__version__}, in which a part is missing ({error})",
        "a tested version of torch", "install an older version of torch, or a newer one of INTact",
    ) from error  # fmt: skip

__all__ = [
    "BatchNorm", "ConvNd", "ConvTransposeNd", "DisableTorchFunction", "DisableTorchFunctionSubclass",
    "FakeTensor", "FunctionalTensorMode", "OpOverload", "OperatorBase", "TorchPart",
    "TorchDispatchMode", "TracerWarning", "detect_fake_mode", "disable_current_modes",
    "enable_python_dispatcher", "pytree", "unset_fake_temporarily",
]  # fmt: skip


# ---- parts that may be missing ----


@dataclass(frozen=True)
class TorchPart:
    """An attribute of a module, of a class in it, or of a class that torch builds on.

    Attributes:
        module: Name of the module, which is imported when the part is first used.
        path: Path of the attribute in it: "ONNXRegistry.register_op".
    """

    module: str
    path: str

    def find(self) -> Any:
        """Return the attribute as its owner stores it, a classmethod as such; None where it is missing."""
        owner, name = self._owner()
        return None if owner is None else inspect.getattr_static(owner, name, None)

    def require(self) -> Any:
        """Return the attribute.

        Raises:
            UnsupportedError: The installed version does not have it.
        """
        owner, name = self._owner()
        if owner is None or not hasattr(owner, name):
            raise UnsupportedError(
                self.module, f"version {torch.__version__} of torch, without {self.path}",
                "a tested version of torch", "install an older version of torch, or a newer one of INTact",
            )  # fmt: skip
        return getattr(owner, name)

    def replace(self, replacement: Any) -> None:
        """Store `replacement` in place of the attribute, for the rest of the process."""
        owner, name = self._owner()
        setattr(owner, name, replacement)

    @contextmanager
    def wrapping(self, wrap: Callable[[Any], Any]) -> Iterator[None]:
        """Replace the attribute by ``wrap(attribute)`` inside the context; do nothing where it is missing."""
        original = self.find()
        if original is None:
            yield
            return
        self.replace(wrap(original))
        try:
            yield
        finally:
            self.replace(original)

    def _owner(self) -> tuple[Any, str]:
        """Return the object that holds the attribute, or None, and the attribute's name."""
        *classes, name = self.path.split(".")
        try:
            owner: Any = importlib.import_module(self.module)
        except ImportError:
            return None, name
        for class_name in classes:
            owner = getattr(owner, class_name, None)
        return owner, name


_EXPORTER = "torch.onnx._internal.exporter"
_TYPE_PROMOTION = "torch.onnx._internal.fx.passes.type_promotion"

REGISTER_OPERATOR = TorchPart(f"{_EXPORTER}._registration", "ONNXRegistry.register_op")
BUILD_REGISTRY = TorchPart(f"{_EXPORTER}._registration", "ONNXRegistry.from_torchlib")
REMOVE_ASSERTION_NODES = TorchPart(f"{_EXPORTER}._fx_passes", "remove_assertion_nodes")
DECOMPOSE_WITH_REGISTRY = TorchPart(f"{_EXPORTER}._fx_passes", "decompose_with_registry")
INSERT_TYPE_PROMOTION = TorchPart(f"{_EXPORTER}._fx_passes", "insert_type_promotion_nodes")
PROMOTE_TYPES_OF_NODE = TorchPart(_TYPE_PROMOTION, "_TypePromotionInterpreter.run_node")
PROMOTE_NODE = TorchPart(_TYPE_PROMOTION, "_TypePromotionInterpreter._maybe_promote_node")
SET_CURRENT_NODE = TorchPart(_TYPE_PROMOTION, "_TypePromotionInterpreter._set_current_node")
TYPE_PROMOTION_RULE = TorchPart(_TYPE_PROMOTION, "get_type_promotion_rule")
FORMAT_TARGET = TorchPart("torch.fx.graph", "_format_target")
CAPTURED_TRACEBACK = TorchPart("torch.fx.proxy", "CapturedTraceback")
PATCH_FUNCTION = TorchPart("torch.fx._symbolic_trace", "_patch_function")
CHECKPOINT_GENERATOR = TorchPart("torch.utils.checkpoint", "_checkpoint_without_reentrant_generator")
CHECKPOINT_APPLY = TorchPart("torch.utils.checkpoint", "CheckpointFunction.apply")
TRY_REWRITE = TorchPart("onnxscript.rewriter._rewrite_rule", "RewriteRule.try_rewrite")
REWRITE_RULES = TorchPart("onnxscript.rewriter", "_DEFAULT_REWRITE_RULES")
PATTERN_CONSTANT = TorchPart("onnxscript.rewriter._pattern_ir", "Constant")
FOLD_CONSTANT = TorchPart("onnxscript.optimizer._constant_folding", "ReferenceEvaluator.evaluate")
DYNAMO_BACKENDS = TorchPart("torch._dynamo.backends.registry", "_COMPILER_FNS")
REGISTER_DYNAMO_BACKEND = TorchPart("torch._dynamo.backends.registry", "register_backend")

DECOMPOSITION_TABLE = TorchPart(f"{_EXPORTER}._decomp", "create_onnx_friendly_decomposition_table")
OVERRIDE_COMPOSITES = TorchPart("torch.export.exported_program", "_override_composite_implicit_decomp")
SPLIT_DECOMPOSITIONS = TorchPart(
    "torch.export.exported_program", "_split_decomp_table_to_cia_and_python_decomp"
)
KEEP_COMPOSITE = TorchPart("torch.export.exported_program", "_special_op_to_preserve_cia")
IS_PRESERVABLE = TorchPart("torch._export.utils", "_is_preservable_cia_op")
DECOMPOSITION_PARTS = (
    DECOMPOSITION_TABLE, OVERRIDE_COMPOSITES, SPLIT_DECOMPOSITIONS, KEEP_COMPOSITE, IS_PRESERVABLE,
)  # fmt: skip
"""Private parts of torch that `intact.torch.tracing.decompose_program` needs."""


# ---- operators and functions ----


def _operators(*names: str) -> frozenset[OpOverload]:
    """Return those of these ATen operators, "add.Tensor", that the installed torch has."""
    packets = ((getattr(torch.ops.aten, packet, None), overload) for packet, overload in map(_split, names))
    return frozenset(getattr(packet, overload) for packet, overload in packets if hasattr(packet, overload))


def _split(name: str) -> tuple[str, str]:
    packet, _, overload = name.partition(".")
    return packet, overload


ASSERTION_OPERATORS = _operators(
    "sym_constrain_range.default", "sym_constrain_range_for_size.default", "_assert_async.default",
    "_assert_async.msg", "_assert_scalar.default", "_assert_tensor_metadata.default",
    "_functional_assert_async.msg", "_functional_assert_scalar.default",
    "_functional_sym_constrain_range_for_size.default",
)  # fmt: skip
"""Operators that check values or sizes, and return nothing that a model's outputs depend on."""

DISTANCE_OPERATOR = next(iter(_operators("_cdist_forward.default")), None)
EUCLIDEAN_DISTANCE_OPERATOR = next(iter(_operators("_euclidean_dist.default")), None)

assert_function = torch._assert
pack_padded_sequence = torch._pack_padded_sequence
pad_packed_sequence = torch._pad_packed_sequence


# ---- what torch is doing ----


def is_jit_tracing() -> bool:
    """Return whether `torch.jit.trace` or the TorchScript exporter records a graph."""
    return bool(torch._C._get_tracing_state())


def is_fx_tracing() -> bool:
    """Return whether `torch.fx.symbolic_trace` records a graph; torch's own function of that name warns."""
    return bool(_symbolic_trace._is_fx_tracing_flag)


def has_functorch_transforms() -> bool:
    """Return whether a transform of `torch.func` is active."""
    return bool(torch._C._are_functorch_transforms_active())


def whole_batch(x: Tensor) -> Tensor:
    """Return the tensor of all samples, [samples, ...], of which `torch.vmap` shows a function one."""
    functorch = torch._C._functorch
    while functorch.is_batchedtensor(x):
        x = functorch.get_unwrapped(x).movedim(functorch.maybe_get_bdim(x), 0)
    return x


def is_in_functorch() -> bool:
    """Return whether an interpreter of `torch.func` runs the present call."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def export_below_transforms(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any
) -> torch.export.ExportedProgram:
    """Return what `torch.export.export` does, recorded below autograd and the transforms of `torch.func`:
    operators on whole batches stand where `torch.vmap` was called.
    """
    program: torch.export.ExportedProgram = _export(model, args, kwargs, pre_dispatch=False, **options)
    return program


def has_transforms(program: torch.export.ExportedProgram) -> bool:
    """Return whether a program holds the calls by which `torch.vmap` enters and leaves a batch."""
    functions = (node.target for node in program.graph.nodes if node.op == "call_function")
    return any(getattr(f, "__module__", None) == "torch._functorch.predispatch" for f in functions)


def decomposes_custom_operators() -> bool:
    """Return whether AOTAutograd may decompose custom operators; `torch.export` wants them whole."""
    return bool(torch._functorch.config.decompose_custom_triton_ops)


def has_composite_kernel(name: str) -> bool:
    """Return whether an operator, "aten::add.Tensor", is composed of other operators under autograd."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


def open_sizes_of_one() -> AbstractContextManager[None]:
    """Return a context in which `torch.export` leaves dynamic sizes of 1 open, too."""
    context: AbstractContextManager[None] = _symbolic_shapes_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    return context


# ---- attributes of torch's objects ----


def version_of(x: Tensor) -> int:
    """Return how often `x` was written to, where torch counts it; `x` is no tensor of inference mode."""
    return x._version


def storage_id(x: Tensor) -> int:
    """Return a number that tensors on the same memory share."""
    number: int = x.untyped_storage()._cdata
    return number


def schema_of(operator: Any) -> Any:
    """Return the schema of an `OpOverload`: arguments, returns, and whether it writes into some."""
    return operator._schema


def is_erased(node: fx.Node) -> bool:
    """Return whether `node` was taken out of its graph."""
    return node._erased


def last_pattern_node(rule: Any) -> Any:
    """Return the node with which the pattern of an onnxscript rewrite rule ends."""
    return rule._target_pattern.output_nodes[0]


def set_graph_module(program: torch.export.ExportedProgram, module: fx.GraphModule) -> None:
    """Replace the graph of an exported program."""
    program._graph_module = module


def forward_pre_hooks(module: nn.Module) -> Any:
    """Return the hooks in front of a module's forward, an ordered dictionary that may be changed."""
    return module._forward_pre_hooks


def is_compiled(model: nn.Module) -> bool:
    """Return whether `torch.compile` wrapped `model`."""
    return type(model).__name__ == "OptimizedModule" and hasattr(model, "_orig_mod")


def compiled_module(model: nn.Module) -> Any:
    """Return the module inside of one for which `is_compiled`."""
    return model._orig_mod


# ---- Dynamo ----


def is_static_input(x: Tensor) -> bool:
    """Return whether Dynamo marked an input of its graph as a parameter or buffer of a module."""
    return hasattr(x, "_dynamo_static_input_type")


def mark_constant_result(function: Any) -> None:
    """Make Dynamo run `function` while it traces, as `torch.compiler.assume_constant_result` does."""
    function._dynamo_marked_constant = True


def code_before_graph_break(code: CodeType) -> CodeType | None:
    """Return the user's code that Dynamo resumes in `code`, which it generated behind a graph break."""
    if not code.co_name.startswith("torch_dynamo_resume_in_"):
        return None
    cache = getattr(sys.modules.get("torch._dynamo.resume_execution"), "ContinueExecutionCache", None)
    metadata = getattr(cache, "generated_code_metadata", {}).get(code)
    original = getattr(metadata, "code", None)
    return original if isinstance(original, CodeType) else None
