"""From a model to an engine, to a file, and back; and nothing heavy needed on the way back."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import intact
from intact.engine.files import plan_files as files
from intact.errors import FileFormatError, NotQuantizedWarning, QuantValueError

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked here")

sys.meta_path.insert(0, Blocked())
import numpy as np
import intact

engine = intact.{verb}({path!r}, threads=1)
np.save({out!r}, engine(np.load({data!r})))
"""


@pytest.fixture
def model(qdq):
    """The bytes of a residual block with open batch size."""
    net = qdq()
    x = net.pair(net.input("x", ("n", 3, 8, 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 8)))
    z = net.pair(net.node("Relu", net.node("Add", net.conv(y, 8, 8), y)))
    flat = net.node("Flatten", net.pair(net.node("GlobalAveragePool", z)))
    return net.proto(net.node("Gemm", flat, net.weight(10, 8), transB=1)).SerializeToString()


@pytest.fixture
def x(rng):
    return rng.standard_normal((2, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def plan(model, tmp_path):
    intact.compile(model, threads=1).save(tmp_path / "model.plan")
    return tmp_path / "model.plan"


@pytest.mark.parametrize("kind", ["bytes", "path", "text", "plan", "plan file"])
def test_what_compile_takes(model, plan, tmp_path, x, kind):
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    source = {
        "bytes": model, "path": path, "text": str(path), "plan": intact.compile(model).plan, "plan file": plan
    }[kind]  # fmt: skip
    assert np.array_equal(intact.compile(source, threads=1)(x), intact.compile(model, threads=1)(x))


def test_compile_takes_what_quantize_returns(qdq, rng):
    net = qdq()
    proto = net.proto(
        net.node("Relu", net.node("Conv", net.input("x", (1, 3, 8, 8)), net.floats(4, 3, 3, 3)))
    )
    data = rng.standard_normal((4, 3, 8, 8)).astype(np.float32)
    quantized = intact.quantize(proto, data, batch_size=1, progress=False)
    engine = intact.compile(quantized)
    assert np.array_equal(engine(data[:1]), intact.compile(quantized.proto)(data[:1]))
    assert "conv" in {step.kind for step in engine.plan.steps}


def test_a_float_model_says_quantize_first(qdq, tmp_path):
    net = qdq()
    (tmp_path / "float.onnx").write_bytes(
        net.proto(net.node("Relu", net.input("x", (1, 3)))).SerializeToString()
    )
    with pytest.warns(NotQuantizedWarning, match=r"quantize first: intact quantize .*float\.onnx --data"):
        intact.compile(tmp_path / "float.onnx")
    net = qdq()
    quantized = net.proto(net.node("Relu", net.pair(net.input("x", (1, 3)))))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotQuantizedWarning)
        intact.compile(quantized)
    assert not any(warning.category is NotQuantizedWarning for warning in caught)


def test_an_example_is_for_modules_alone(qdq):
    net = qdq()
    proto = net.proto(net.node("Relu", net.input("x", (1, 3))))
    with pytest.raises(QuantValueError, match=r"example: got one for a ModelProto.*it is for modules"):
        intact.compile(proto, np.zeros((1, 3), np.float32))


def test_a_loaded_engine_gives_the_same_and_packs_nothing(model, plan, x):
    loaded = intact.load(plan, threads=1)
    assert np.array_equal(loaded(x), intact.compile(model, threads=1)(x))
    assert dict(loaded.packed_weights.maps[0]) == {}, "everything came packed"


def test_another_machine_packs_for_itself(model, plan, x, monkeypatch):
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    assert np.array_equal(intact.load(plan)(x), intact.compile(model)(x))


def test_saving_is_deterministic_whatever_ran(model, plan, x, tmp_path):
    engine = intact.compile(model, threads=1)
    engine(x)
    engine.save(tmp_path / "used.plan")
    assert (tmp_path / "used.plan").read_bytes() == plan.read_bytes()


def test_a_damaged_weight_is_refused_before_anything_runs(plan):
    stored = files.load(plan)
    content = bytearray(plan.read_bytes())
    for array in (*stored.packed.values(), stored.constants[stored.plan.steps[1].epilogue.multiplier]):
        damaged = bytearray(content)
        place = content.index(array.tobytes())
        damaged[place] ^= 1
        plan.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="do not match their checksum"):
            intact.load(plan)


@pytest.mark.parametrize(
    ("verb", "blocked"),
    [
        ("load", ("torch", "onnx", "onnx_ir", "onnxruntime", "safetensors", "onnxscript")),
        ("compile", ("torch", "onnxscript")),
    ],
    ids=["a plan needs NumPy alone", "a file needs no torch"],
)
def test_it_runs_without(model, plan, tmp_path, x, verb, blocked):
    path = plan if verb == "load" else tmp_path / "model.onnx"
    if verb == "compile":
        path.write_bytes(model)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "y.npy"
    code = BLOCKED.format(
        blocked=blocked, verb=verb, path=str(path), out=str(out), data=str(tmp_path / "x.npy")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(out), intact.compile(model, threads=1)(x))
