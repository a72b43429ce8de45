"""The stages of `load`: which of them a message, a model in memory and an old model pass."""

from __future__ import annotations

from onnx.parser import parse_model

from intact.graph import load
from intact.graph.files.load import STAGES, Loading
from intact.graph.infer.inference import HAS_SHAPES

SMALL = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[4] x) => (float[4] y) { y = Relu (x) }
"""


def stages_of(state):
    """The stages that a model passes, by name; each is run."""
    passed = []
    for stage in STAGES:
        if stage.applies is None or stage.applies(state):
            stage.run(state)
            passed.append(stage.name)
    return passed


def test_a_message_is_checked_before_it_is_converted_and_inferred_last():
    names = stages_of(Loading(parse_model(SMALL), any_opset=False, checked=False, home=None))
    assert names[:3] == ["parse the message", "let -1 be any size", "check the message"]
    assert names[3:5] == ["type outputs that nothing makes", "convert to onnx-ir"]
    assert names[-2:] == ["infer shapes", "name nodes"] and "upgrade to opset 9" not in names


def test_a_checked_model_with_shapes_is_neither_copied_nor_inferred_again():
    loaded = load(parse_model(SMALL))
    loaded.meta[HAS_SHAPES] = True
    state = Loading(loaded, any_opset=False, checked=True, home=None)
    names = stages_of(state)
    assert state.model is loaded and "check the model" not in names and "infer shapes" not in names
    assert "check the model" in stages_of(Loading(loaded, any_opset=False, checked=False, home=None))


def test_an_old_model_is_upgraded_and_inferred_once():
    old = parse_model(SMALL.replace('"" : 17', '"" : 8'))
    names = stages_of(Loading(old, any_opset=False, checked=False, home=None))
    assert "upgrade to opset 9" in names and "infer shapes" not in names
