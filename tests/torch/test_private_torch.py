"""Every private name of torch stands in one module, and the installed torch has it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from intact.errors import UnsupportedError
from intact.torch import private_torch
from intact.torch.private_torch import TorchPart

FOLDER = Path(private_torch.__file__).parent
TORCH_NAMES = {"torch", "nn", "fx", "dist", "F"}
"""The names under which modules import torch and its packages."""

PARTS = {name: part for name, part in vars(private_torch).items() if isinstance(part, TorchPart)}


@pytest.mark.parametrize("name", PARTS)
def test_the_installed_torch_has_each_part(name: str) -> None:
    part = PARTS[name]
    assert part.find() is not None, f"{part.module} has no {part.path}"
    part.require()


@pytest.mark.parametrize("name", ["_modules", "_parameters", "_buffers", "_load_from_state_dict"])
def test_modules_have_the_attributes_that_quantized_modules_use(name: str) -> None:
    assert hasattr(nn.Linear(1, 1), name)


def test_transposed_convolutions_compute_their_output_padding_by_the_method_that_ours_call() -> None:
    assert callable(nn.ConvTranspose2d(1, 1, 1)._output_padding)


def test_every_operator_that_checks_values_is_known() -> None:
    assert len(private_torch.ASSERTION_OPERATORS) == 9
    assert private_torch.DISTANCE_OPERATOR is not None
    assert private_torch.EUCLIDEAN_DISTANCE_OPERATOR is not None


def test_functions_read_the_attributes_of_torchs_objects() -> None:
    x = torch.zeros(2)
    before = private_torch.version_of(x)
    x.add_(1)
    assert private_torch.version_of(x) == before + 1
    assert private_torch.storage_id(x) == private_torch.storage_id(x[1:])
    assert private_torch.schema_of(torch.ops.aten.add_.Tensor).is_mutable
    assert private_torch.has_composite_kernel("aten::dropout")
    assert not private_torch.has_composite_kernel("aten::add.Tensor")
    assert not private_torch.is_jit_tracing() and not private_torch.is_in_functorch()
    model = nn.Linear(1, 1)
    handle = model.register_forward_pre_hook(lambda module, args: None)
    assert handle.id in private_torch.forward_pre_hooks(model)
    graph = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU())).graph
    output = graph.output_node()
    graph.erase_node(output)
    assert private_torch.is_erased(output)


def test_a_part_that_is_missing_is_skipped_or_an_error_that_names_it() -> None:
    for part in (TorchPart("torch.fx", "NoSuchClass.method"), TorchPart("torch.no_such_module", "name")):
        assert part.find() is None
        with part.wrapping(lambda original: pytest.fail("it has no original")):
            pass
        with pytest.raises(UnsupportedError, match=f"{part.module}.*{part.path}"):
            part.require()


def test_a_wrapped_part_is_put_back_as_its_class_stores_it() -> None:
    part = private_torch.BUILD_REGISTRY
    stored = part.find()
    assert isinstance(stored, classmethod)
    with pytest.raises(KeyError), part.wrapping(lambda original: staticmethod(lambda: 3)):
        assert part.require()() == 3
        raise KeyError
    assert part.find() is stored


def test_a_torch_without_an_imported_part_is_refused_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._guards

    monkeypatch.delattr(torch._guards, "detect_fake_mode")
    with pytest.raises(UnsupportedError, match=r"detect_fake_mode.*install an older version of torch"):
        _execute(Path(private_torch.__file__))


def _execute(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("private_torch_again", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_other_module_uses_private_names_of_torch() -> None:
    used = {
        f"{path.relative_to(FOLDER)}: {name}"
        for path in FOLDER.rglob("*.py")
        if path.name != "private_torch.py"
        for name in _private_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert used == set()


def test_private_names_are_found_in_imports_and_attributes() -> None:
    code = """
import torch._dynamo
from torch.utils import _pytree as pytree
from torch._ops import OpOverload
torch._C.f()
nn.modules.conv._ConvNd
"""
    assert set(_private_names(ast.parse(code))) == {
        "torch._dynamo", "torch.utils._pytree", "torch._ops.OpOverload", "torch._C", "nn.modules.conv._ConvNd"
    }  # fmt: skip


def _private_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{item.name}" for item in node.names]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            names = [ast.unparse(node)]
        for name in names:
            first, *rest = name.split(".")
            if first in TORCH_NAMES and any(
                part.startswith("_") and not part.endswith("__") for part in rest
            ):
                yield name
