"""The models of the ONNX package's backend tests: all are read, and written as they were."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.graph import Session, load, to_bytes, to_proto, upgrade_opset

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = {"light": 9, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35}
"""Number of models of each kind in onnx 1.23; older packages have fewer."""


def canonical(proto: onnx.ModelProto) -> bytes:
    """`proto` without what means nothing: names of nodes, order of opsets, empty strings."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    opsets = sorted((entry.domain, entry.version) for entry in copy.opset_import)
    del copy.opset_import[:]
    copy.opset_import.extend(onnx.helper.make_opsetid(*entry) for entry in opsets)
    for node in nodes(copy):
        node.ClearField("name")
    for part in (copy, copy.graph, *nodes(copy)):
        for field in ("domain", "doc_string", "producer_version", "model_version"):
            if hasattr(part, field) and not getattr(part, field):
                part.ClearField(field)
    weights = {tensor.name for tensor in copy.graph.initializer}
    if copy.ir_version < 4:  # which `load` brings to IR 4
        copy.ir_version = 4
        graph_inputs = [info for info in copy.graph.input if info.name not in weights]
        del copy.graph.input[:]
        copy.graph.input.extend(graph_inputs)
    return bytes(copy.SerializeToString(deterministic=True))


def nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    stack = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while stack:
        node = stack.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                stack.extend(graph.node)


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_round_trips(kind: str) -> None:
    paths = sorted((DATA / kind).rglob("*.onnx"))
    assert len(paths) >= KINDS[kind] or onnx.__version__ < "1.23"
    changed = [
        p.name for p in paths if canonical(to_proto(load(p, any_opset=True))) != canonical(onnx.load(p))
    ]
    assert not changed


@pytest.mark.slow
def test_every_node_model_round_trips() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the code that makes the expected outputs
        from onnx.backend.test.loader import load_model_tests

        models = [(case.name, case.model) for case in load_model_tests(kind="node")]
    assert len(models) >= 1500
    changed = [n for n, m in models if canonical(to_proto(load(m, any_opset=True))) != canonical(m)]
    assert not changed


def examples(folder: Path) -> Iterator[tuple[list[NDArray], list[NDArray]]]:
    """(inputs, outputs) of a backend test, those that are plain tensors."""
    for data in sorted(folder.glob("test_data_set_*")):
        yield tuple(  # type: ignore[misc]
            [
                onnx.numpy_helper.to_array(
                    onnx.TensorProto.FromString((data / f"{kind}_{i}.pb").read_bytes())
                )
                for i in range(len(list(data.glob(f"{kind}_*.pb"))))
            ]
            for kind in ("input", "output")
        )


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator"])
@pytest.mark.parametrize("opset", [None, 13, 21], ids=["as-it-is", "opset13", "opset21"])
def test_outputs_stay_when_a_model_is_written_or_raised(kind: str, opset: int | None) -> None:
    wrong, compared = [], 0
    for folder in sorted((DATA / kind).iterdir()):
        model = load(folder / "model.onnx", any_opset=opset is None)
        try:
            if opset is not None:
                upgrade_opset(model, opset)
            session = Session(to_bytes(model))
        except (QuantValueError, UnsupportedError):
            continue  # the latter: an operator that this build of ONNX Runtime has not
        for inputs, outputs in examples(folder):
            got = session.run(dict(zip(session.inputs, inputs, strict=True)))
            compared += 1
            if not all(
                np.allclose(g, o, rtol=1e-3, atol=1e-5, equal_nan=True)
                for g, o in zip(got.values(), outputs, strict=True)
            ):
                wrong.append(folder.name)
    assert not wrong
    least = (10, 45) if opset is None else (30, 80)  # ONNX Runtime has few operators of opset 6 left
    assert compared >= least[kind == "pytorch-converted"]


def test_a_model_of_an_old_opset_is_raised_unless_it_is_only_read() -> None:
    path = DATA / "pytorch-operator" / "test_operator_add_broadcast" / "model.onnx"
    assert load(path).opset_imports == {"": 9}
    assert load(path, any_opset=True).opset_imports == {"": 6}
