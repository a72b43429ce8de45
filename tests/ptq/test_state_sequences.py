"""Calibration data of models with states: each step gets what the one before it left."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import intact
from intact.errors import QuantValueError
from intact.ptq import streamed

ADDING = """
<ir_version: 8, opset_import: ["": 17]>
net (float[n, 3] x, float[1, n, 3] h) => (float[n, 3] y, float[1, n, 3] hn)
{
    hn = Add(h, x)
    one = Constant<value_ints = [0]>()
    y = Squeeze(hn, one)
}
"""


@pytest.fixture
def model():
    return onnx.parser.parse_model(ADDING)


def test_states_go_from_step_to_step_and_begin_anew(model):
    ones = np.ones((2, 3), np.float32)
    batches = list(streamed(model, [[ones, {"x": ones * 2}, ones], iter([ones])], {"h": "hn"}))
    assert [batch["h"].max() for batch in batches] == [0, 1, 3, 0]
    assert [batch["x"].max() for batch in batches] == [1, 2, 1, 1]
    assert batches[0]["h"].shape == (1, 2, 3)


def test_the_first_states_may_be_given(model):
    ones = np.ones((2, 3), np.float32)
    batches = streamed(model, [[ones, ones]], {"h": "hn"}, first={"h": np.full((1, 2, 3), 5, np.float32)})
    assert [batch["h"].max() for batch in batches] == [5, 6]


def test_names_that_the_model_does_not_have_are_refused(model):
    for states, why in (({"s": "hn"}, "no input 's'"), ({"h": "sn"}, "no output 'sn'")):
        with pytest.raises(QuantValueError, match=why):
            next(streamed(model, [], states))


def test_sizes_that_nothing_tells_are_asked_for(model):
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "m"
    with pytest.raises(QuantValueError, match="first="):
        next(streamed(model, [[np.ones((2, 3), np.float32)]], {"h": "hn"}))


def test_a_recurrent_model_is_quantized_from_sequences():
    rng = np.random.default_rng(0)
    rnn = """
    <ir_version: 8, opset_import: ["": 17]>
    net (float[1, n, 16] x, float[1, n, 4] h, float[1, n, 4] c) => (float[1, n, 4] hn, float[1, n, 4] cn)
    { y, hn, cn = LSTM<hidden_size = 4>(x, w, r, , , h, c) }
    """
    model = onnx.parser.parse_model(rnn)
    for name, inputs in (("w", 16), ("r", 4)):
        array = rng.standard_normal((1, 16, inputs)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    sequences = [[rng.standard_normal((1, 2, 16)).astype(np.float32) for _ in range(4)] for _ in range(3)]
    result = intact.quantize(model, streamed(model, sequences, {"h": "hn", "c": "cn"}), progress=False)
    assert [step.kind for step in intact.compile(result.model).plan.steps] == [
        "quantize",
        "linear",
        "recurrent",
    ]
