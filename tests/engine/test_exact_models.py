"""Whole networks: no subgraph, the same bits in reference and engine, the same answers as ONNX Runtime."""

import io

import numpy as np
import pytest
from safetensors.numpy import load_file

import intact
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.graph import Session

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def images(path, count):
    """The first `count` images of a CIFAR-10 file, normalized, [count, 3, 32, 32]."""
    from PIL import Image

    data = np.load(path)
    jpeg, ends = data["jpeg"], data["offsets"]
    pixels = [
        np.asarray(Image.open(io.BytesIO(jpeg[ends[i] : ends[i + 1]].tobytes())), np.float32)
        for i in range(count)
    ]
    return np.ascontiguousarray(((np.stack(pixels) / 255 - MEAN) / STD).transpose(0, 3, 1, 2))


def resnet20(g, weights):
    """The trained CIFAR-10 ResNet-20 as a float graph; option A shortcuts are Slice and Pad."""

    def layer(x, name, stride, relu):
        conv, norm = name
        y = g.node("Conv", x, weights_of(f"{conv}.weight"), pads=[1] * 4, strides=[stride] * 2)
        parts = [weights_of(f"{norm}.{p}") for p in ("weight", "bias", "running_mean", "running_var")]
        y = g.node("BatchNormalization", y, *parts)
        return g.node("Relu", y) if relu else y

    def weights_of(name):
        return g.constant(weights[name], name)

    x = layer(g.input("x", ["n", 3, 32, 32]), ("conv1", "bn1"), 1, True)
    for stage in (1, 2, 3):
        for block in range(3):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = layer(x, (f"{at}.conv1", f"{at}.bn1"), stride, True)
            y = layer(y, (f"{at}.conv2", f"{at}.bn2"), 1, False)
            if stride == 2:
                ends = g.ints(*[2**31] * 2)
                x = g.node("Slice", x, g.ints(0, 0), ends, g.ints(2, 3), g.ints(2, 2))
                wide = 4 * 2**stage // 2
                x = g.node("Pad", x, g.ints(0, wide, 0, 0, 0, wide, 0, 0))
            x = g.node("Relu", g.node("Add", y, x))
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    return g.node("Gemm", x, weights_of("linear.weight"), weights_of("linear.bias"), transB=1, name="y")


def exact(plan, feeds, threads):
    """The reference's tensors, after every one of the engine was found equal."""
    values = evaluate(plan, feeds)
    for name, got in Engine(plan, threads=threads).tap(feeds).items():
        np.testing.assert_array_equal(got, values[name], err_msg=name)
    return values


@pytest.mark.shared
@pytest.mark.slow
def test_cifar_resnet20(qdq, shared_folder):
    g = qdq()
    y = resnet20(g, load_file(shared_folder / "models" / "cifar10_resnet20.safetensors"))
    train = images(shared_folder / "data" / "cifar10_train.npz", 16)
    quantized = intact.quantize(
        g.proto(y), [{"x": train}], method="max", progress=False, bias_correction=False, equalization=False
    )
    plan = lower(quantized.model)
    kinds = [step.kind for step in plan.steps]
    assert (kinds.count("conv"), kinds.count("onnx"), len(kinds)) == (19, 0, 27)
    x = images(shared_folder / "data" / "cifar10_test.npz", 64)
    got = exact(plan, {"x": x}, threads=2)[y]
    want = Session(quantized.proto.SerializeToString()).run({"x": x})[y]
    assert (got.argmax(1) == want.argmax(1)).mean() >= 63 / 64
    labels = np.load(shared_folder / "data" / "cifar10_test.npz")["labels"][:64]
    assert (got.argmax(1) == labels).mean() > 0.8


def export_module(module, x, path):
    import torch

    module = module.eval()
    with torch.no_grad():
        torch.onnx.export(
            module, (x,), path, dynamo=True, external_data=False, verbose=False,
            input_names=["x"], output_names=["y"], dynamic_shapes=({0: torch.export.Dim("batch")},),
        )  # fmt: skip
    return path


NETS = {
    "resnet18": (lambda nets: nets.ResNet(nets.Basic, [2, 2, 2, 2], 1), (3, 64, 64), 0.9),
    "resnet50": (lambda nets: nets.ResNet(nets.Bottleneck, [1, 1, 1, 1], 4), (3, 64, 64), 0.9),
    "mobilenetv2": (lambda nets: nets.MBV2(), (3, 64, 64), 0.9),
    "bert": (lambda nets: nets.Enc(n=1), (32, 768), 0.9),
}


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", NETS)
def test_the_networks_of_the_benchmarks(shared_folder, name, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(shared_folder)
    import nets

    make, shape, share = NETS[name]
    path = export_module(make(nets), torch.randn(2, *shape), tmp_path / "net.onnx")
    data = [{"x": torch.randn(1, *shape).numpy()} for _ in range(2)]
    quantized = intact.quantize(
        path, data, method="max", progress=False, bias_correction=False, equalization=False
    )
    plan = lower(quantized.model)
    assert "onnx" not in {step.kind for step in plan.steps}
    x = {"x": torch.randn(3, *shape).numpy()}
    got = exact(plan, x, threads=2)["y"]
    want = Session(quantized.proto.SerializeToString()).run(x)["y"]
    assert (got.argmax(-1) == want.argmax(-1)).mean() >= share


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(qdq, threads):
    g = qdq()
    y = g.pair(g.node("Relu", g.conv(g.pair(g.input("x", [3, 8, 17, 13])), 8, 24)), 0.2)
    y = g.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    plan = lower(g.proto(g.quantize(g.conv(y, 24, 40), 0.3)))
    exact(plan, g.feeds(), threads)
