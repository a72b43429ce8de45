"""Try an installed INTact as somebody does who has pip and nothing else: quantize, build, save, load, run.

python .ci/try_wheel.py    # no compiler, no PyTorch, no source tree on the path
"""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import intact
from intact import kernels
from intact.engine import save_ep_context
from intact.engine.reference import evaluate


def network():
    """Two convolutions and a product: what every kind of weight needs."""
    rng = np.random.default_rng(0)
    weights = {"w1": (8, 3, 3, 3), "w2": (16, 8, 3, 3), "w3": (16, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1], name="second"),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], name="pool"),
        helper.make_node("Flatten", ["d"], ["e"], name="flatten"),
        helper.make_node("MatMul", ["e", "w3"], ["y"], name="classify"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
    given = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) * 0.2, n)
        for n, s in weights.items()
    ]
    graph = helper.make_graph(nodes, "network", [x], [y], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run_in_onnxruntime(path, x):
    """The output of a model with an EPContext node, by the provider that lies in the wheel."""
    onnxruntime.register_execution_provider_library("intact", intact.get_onnxruntime_library())
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "INTactExecutionProvider"]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices, {})
    return onnxruntime.InferenceSession(path, sess_options=options).run(None, {"x": x})[0]


def main() -> None:
    source = Path(__file__).resolve().parents[1] / "src"
    assert source not in Path(intact.__file__).resolve().parents, "this is the source tree, not a wheel"
    data = np.random.default_rng(1).standard_normal((32, 3, 16, 16)).astype(np.float32)
    quantized = intact.quantize(network(), data, progress=False)
    engine = intact.compile(quantized, threads=2)
    y = engine(data[:4])
    reference = evaluate(engine.plan, {"x": data[:4]})
    assert np.array_equal(reference[engine.plan.outputs[0]], y), "the engine and the integer reference differ"
    with tempfile.TemporaryDirectory() as folder:
        engine.save(f"{folder}/model.plan")
        assert np.array_equal(intact.load(f"{folder}/model.plan", threads=1)(data[:4]), y)
        quantized.save(f"{folder}/model.onnx")
        save_ep_context(engine, f"{folder}/model.onnx", f"{folder}/model_ctx.onnx")
        assert np.array_equal(run_in_onnxruntime(f"{folder}/model_ctx.onnx", data[:4]), y)
    chosen = ", ".join(kernel.name for kernel in kernels.kernel_list() if kernel.chosen)
    print(f"intact {intact.__version__} in {Path(intact.__file__).parent}: {chosen}")


if __name__ == "__main__":
    main()
