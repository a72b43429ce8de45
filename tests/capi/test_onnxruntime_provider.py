"""ONNX Runtime runs plans through INTact's execution provider, with the engine's answers to the bit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tests.engine.conftest import Qdq
from tests.fuzz.check import inputs
from tests.fuzz.graphs import make

import intact
from intact.engine import Engine, save_ep_context
from intact.errors import FileAccessError, IntactError, UnsupportedError

ROOT = Path(__file__).parents[2]
PROVIDER = "INTactExecutionProvider"
COMPILER = shutil.which("c++")
Session = onnxruntime.InferenceSession


def library_path() -> str | None:
    """The provider of this build; None where there is none."""
    try:
        return intact.get_onnxruntime_library()
    except intact.IntactError:
        return None


@pytest.fixture(scope="module")
def provider() -> str:
    """The library, registered in ONNX Runtime: for good, because sessions of failed tests live on."""
    library = library_path()
    if library is None:
        pytest.skip("libintact_onnxruntime is not built: CMakeLists.txt says how")
    onnxruntime.register_execution_provider_library("intact_test", library)
    return library


def devices() -> list[Any]:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def open_session(
    model: Path | bytes, threads: int = 1, options: Mapping[str, str] = {}, **entries: str
) -> Session:
    """A session whose only provider beside ONNX Runtime's own is INTact's."""
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    session_options.log_severity_level = 4
    for key, text in entries.items():
        session_options.add_session_config_entry(key.replace("__", "."), text)
    session_options.add_provider_for_devices(devices(), dict(options))
    return Session(model if isinstance(model, bytes) else str(model), sess_options=session_options)


def run(session: Session, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def same(got: Mapping[str, NDArray[Any]], want: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether two runs gave the same names, types, shapes and bits."""
    record = [{n: (a.dtype, a.shape, a.tobytes()) for n, a in arrays.items()} for arrays in (got, want)]
    return record[0] == record[1]


def net_model() -> onnx.ModelProto:
    """A small net of convolutions with free sizes, which uses several threads."""
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, "height", 32)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 16, strides=[2, 2])))
    net.node("Identity", net.pair(net.conv(y, 16, 24)), name="y")
    model = net.proto("y")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 24, "rows", 16])
    model.graph.output[0].CopyFrom(output)
    helper.set_model_props(model, {"labels": "a, b"})
    return model


@pytest.fixture(scope="module")
def net_engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Engine]:
    """The model's file, and its engine."""
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(net_model(), path)
    return path, intact.compile(path, threads=1)


@pytest.fixture(scope="module")
def context_model(net_engine: tuple[Path, Engine]) -> Path:
    """The model with an EPContext node."""
    path, engine = net_engine
    save_ep_context(engine, path, path.with_name("net_ctx.onnx"))
    return path.with_name("net_ctx.onnx")


def sample(batch: int, height: int = 32) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(batch)
    return {"x": rng.standard_normal((batch, 3, height, 32)).astype(np.float32) * 3}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("is_external", [False, True], ids=["embedded", "external"])
def test_answers_are_the_engines_for_all_sizes(provider, net_engine, tmp_path, is_external, threads) -> None:
    path, engine = net_engine
    plan = save_ep_context(engine, path, tmp_path / "ctx.onnx", is_external=is_external)
    assert plan == (tmp_path / "ctx.onnx.plan" if is_external else None)
    for options in ({}, {"threads": "3"}):
        session = open_session(tmp_path / "ctx.onnx", threads, options)
        assert session.get_providers()[0] == PROVIDER
        for batch, height in ((1, 32), (5, 32), (2, 17), (0, 32), (1, 32)):
            feeds = sample(batch, height)
            assert same(run(session, feeds), engine.run(feeds)), (batch, height)


def test_the_interface_is_that_of_the_model(provider, net_engine, context_model) -> None:
    before, after = Session(str(net_engine[0])), open_session(context_model)
    for ports in ("get_inputs", "get_outputs"):
        want, got = ([(p.name, p.type, p.shape) for p in getattr(s, ports)()] for s in (before, after))
        assert got == want
    assert after.get_modelmeta().custom_metadata_map == {"labels": "a, b"}
    (node,) = onnx.load(context_model).graph.node
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    assert (node.op_type, node.domain) == ("EPContext", "com.microsoft")
    assert attributes["source"] == PROVIDER.encode() and attributes["main_context"] == 1
    assert attributes["ep_sdk_version"] == intact.__version__.encode()


def test_sizes_that_were_fixed_are_numbers(provider, net_engine, tmp_path) -> None:
    path, _ = net_engine
    engine = intact.compile(path, shapes={"x": (2, 3, 16, 32)}, threads=1)
    save_ep_context(engine, path, tmp_path / "ctx.onnx")
    session = open_session(tmp_path / "ctx.onnx")
    ports = (*session.get_inputs(), *session.get_outputs())
    assert [port.shape for port in ports] == [[2, 3, 16, 32], [2, 24, 8, 16]]
    assert same(run(session, sample(2, 16)), engine.run(sample(2, 16)))


def test_eight_threads_share_a_session(provider, net_engine, context_model) -> None:
    engine, session = net_engine[1], open_session(context_model, 2)
    feeds = [sample(1 + i % 5, 16 + i % 3) for i in range(64)]
    wanted = [engine.run(entry) for entry in feeds]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda entry: run(session, entry), feeds))
    assert all(same(got, want) for got, want in zip(results, wanted, strict=True))


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_random_graphs_have_the_engines_bits(provider, tmp_path) -> None:
    runs, refused = 0, 0
    for seed in range(24):
        case = make(seed)
        path = tmp_path / f"{seed}.onnx"
        onnx.save(case.proto, path)
        engine = intact.compile(path, threads=1)
        try:
            save_ep_context(engine, path, tmp_path / "ctx.onnx")
        except UnsupportedError:
            refused += 1
            continue
        session = open_session(tmp_path / "ctx.onnx", 1 + seed % 2)
        for sizes in case.sizes:
            feeds = inputs(case.proto, sizes, "random", np.random.default_rng(seed))
            try:
                want = engine.run(feeds)
            except IntactError:
                with pytest.raises(Exception, match=r"INTact|INVALID_ARGUMENT"):
                    run(session, feeds)
                continue
            assert same(run(session, feeds), want), (seed, sizes)
            runs += 1
    assert runs > 50 and refused < 12


def test_a_model_has_no_node_for_other_providers_and_writes_into_bound_memory(
    provider, net_engine, context_model
) -> None:
    session = open_session(context_model, session__disable_cpu_ep_fallback="1")
    feeds = sample(2)
    want = net_engine[1].run(feeds)["y"]
    output = np.zeros_like(want)
    binding = session.io_binding()
    binding.bind_cpu_input("x", feeds["x"])
    binding.bind_output("y", "cpu", 0, output.dtype, output.shape, output.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(output, want, strict=True)


def change_node(path: Path, to: Path, **attributes: Any) -> Path:
    """A copy of an EPContext model with other attributes."""
    model = onnx.load(path)
    node = model.graph.node[0]
    same_attributes = [entry for entry in node.attribute if entry.name not in attributes]
    del node.attribute[:]
    node.attribute.extend(same_attributes)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    onnx.save(model, to)
    return to


def plan_bytes(path: Path) -> bytes:
    (node,) = onnx.load(path).graph.node
    return next(bytes(entry.s) for entry in node.attribute if entry.name == "ep_cache_context")


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda plan: b"", "empty ep_cache_context"),
    "other": (lambda plan: b"no plan at all" * 20, "INTact: "),
    "short": (lambda plan: plan[: len(plan) // 2], "INTact: "),
    "text": (lambda plan: plan.replace(b'"conv', b'"c0nv', 1), "INTact: .*checksum"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_plans_are_refused_when_the_session_is_made(provider, context_model, tmp_path, kind) -> None:
    damage, message = DAMAGE[kind]
    plan = damage(plan_bytes(context_model))
    assert plan != plan_bytes(context_model)
    path = change_node(context_model, tmp_path / "bad.onnx", ep_cache_context=plan)
    with pytest.raises(Exception, match=message):
        open_session(path)


def test_a_flipped_bit_of_a_weight_is_found_when_the_session_is_made(
    provider, net_engine, context_model, tmp_path
) -> None:
    """Arrays that kernels of other machines have packed are not read, and change no answer."""
    plan, refused = plan_bytes(context_model), 0
    header = json.loads(plan[8 : 8 + (size := int.from_bytes(plan[:8], "little"))])
    arrays = {name: 8 + size + entry["data_offsets"][0] for name, entry in header.items() if name[0] != "_"}
    for name, begin in arrays.items():
        damaged = plan[:begin] + bytes([plan[begin] ^ 1]) + plan[begin + 1 :]
        path = change_node(context_model, tmp_path / "bad.onnx", ep_cache_context=damaged)
        try:
            session = open_session(path)
        except Exception as error:
            assert "INTact: " in str(error) and "do not match their checksum" in str(error), name
            refused += 1
            continue
        assert same(run(session, sample(2)), net_engine[1].run(sample(2))), name
    assert refused >= 2


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"embed_mode": 0, "ep_cache_context": "/etc/hostname"}, "does not lie below the folder"),
        ({"embed_mode": 0, "ep_cache_context": "../net.plan"}, "does not lie below the folder"),
        ({"embed_mode": 0, "ep_cache_context": "missing.plan"}, "missing.plan"),
        ({"main_context": 0}, "main_context=0"),
    ],
)
def test_nodes_that_cannot_run_say_why(provider, context_model, tmp_path, attributes, message) -> None:
    with pytest.raises(Exception, match=f"INTact: .*{message}"):
        open_session(change_node(context_model, tmp_path / "bad.onnx", **attributes))


def test_a_plan_of_another_interface_is_refused(provider, context_model, tmp_path) -> None:
    model = onnx.load(context_model)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    onnx.save(model, tmp_path / "type.onnx")
    with pytest.raises(Exception, match="'x' has another element type"):
        open_session(tmp_path / "type.onnx")
    model = onnx.load(context_model)
    model.graph.node[0].input.append("x2")
    model.graph.input.append(helper.make_tensor_value_info("x2", TensorProto.FLOAT, [1]))
    onnx.save(model, tmp_path / "count.onnx")
    with pytest.raises(Exception, match="2 inputs and a plan with 1"):
        open_session(tmp_path / "count.onnx")


@pytest.mark.parametrize("threads", ["-1", "two", "1025", "2 "])
def test_a_wrong_number_of_threads_is_refused(provider, context_model, threads) -> None:
    with pytest.raises(Exception, match=rf"option 'threads': got '{threads}', want 0 to 1024"):
        open_session(context_model, options={"threads": threads})


def test_a_model_in_memory_says_where_its_plan_is(provider, net_engine, tmp_path) -> None:
    path, engine = net_engine
    save_ep_context(engine, path, tmp_path / "ctx.onnx", is_external=True)
    data = (tmp_path / "ctx.onnx").read_bytes()
    with pytest.raises(Exception, match=r"ep\.context_file_path"):
        open_session(data)
    session = open_session(data, ep__context_file_path=str(tmp_path / "ctx.onnx"))
    assert same(run(session, sample(2)), engine.run(sample(2)))


def test_a_session_goes_on_behind_an_input_of_wrong_sizes(provider, net_engine, context_model) -> None:
    model = onnx.load(context_model)
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "width"  # else ONNX Runtime checks it
    session = open_session(model.SerializeToString())
    with pytest.raises(Exception, match=r"INTact: .*'x'.*size 31"):
        run(session, {"x": np.zeros((1, 3, 8, 31), np.float32)})
    assert same(run(session, sample(1)), net_engine[1].run(sample(1)))


def test_floats_meet_codes_and_nodes_of_onnx_runtime(provider, tmp_path) -> None:
    """The plan's ports are codes, nodes of ONNX Runtime follow, and nobody reads one of its outputs."""
    net = Qdq()
    codes = net.input("codes", ("n", 8), TensorProto.INT8)
    x = net.dequantize(codes)
    grid = [net.constant(value) for value in (np.float32(0.05), np.int8(0))]
    net.node("QuantizeLinear", net.node("Relu", x), *grid, name="positive")
    net.node("Identity", net.pair(net.node("Gemm", x, net.weight(8, 4, axis=None))), name="product")
    onnx.save(net.proto("positive", "product"), tmp_path / "codes.onnx")
    engine = intact.compile(tmp_path / "codes.onnx", threads=1)
    save_ep_context(engine, tmp_path / "codes.onnx", tmp_path / "ctx.onnx")
    model = onnx.load(tmp_path / "ctx.onnx")
    model.graph.node.append(helper.make_node("Abs", ["product"], ["y"]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4]))
    model.graph.value_info.append(helper.make_tensor_value_info("product", TensorProto.FLOAT, ["n", 4]))
    model.graph.value_info.append(helper.make_tensor_value_info("positive", TensorProto.INT8, ["n", 8]))
    onnx.save(model, tmp_path / "mixed.onnx")
    feeds = {"codes": np.arange(-12, 12, dtype=np.int8).reshape(3, 8)}
    want = np.abs(engine.run(feeds)["product"])
    np.testing.assert_array_equal(run(open_session(tmp_path / "mixed.onnx"), feeds)["y"], want, strict=True)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(model, tmp_path / "floats.onnx")
    floats = {"codes": feeds["codes"].astype(np.float32) * np.float32(0.05)}
    np.testing.assert_array_equal(run(open_session(tmp_path / "floats.onnx"), floats)["y"], want, strict=True)


def test_an_output_that_is_an_input_goes_past_the_node(provider, tmp_path) -> None:
    net = Qdq()
    x = net.input("x", ("n", 4))
    net.node("Identity", net.pair(x), name="y")
    model = net.proto("y")
    model.graph.output.append(model.graph.input[0])
    onnx.save(model, tmp_path / "past.onnx")
    engine = intact.compile(tmp_path / "past.onnx", threads=1)
    save_ep_context(engine, tmp_path / "past.onnx", tmp_path / "ctx.onnx")
    feeds = {"x": np.linspace(-9, 9, 8, dtype=np.float32).reshape(2, 4)}
    got = run(open_session(tmp_path / "ctx.onnx"), feeds)
    assert list(got) == ["y", "x"] and np.array_equal(got["x"], feeds["x"])


def test_models_with_other_parts_are_refused_by_name(tmp_path) -> None:
    net = Qdq()
    x = net.node("Det", net.pair(net.input("x", (2, 3, 3))), name="determinant")
    onnx.save(net.proto(x), tmp_path / "det.onnx")
    engine = intact.compile(tmp_path / "det.onnx", threads=1)
    for is_external in (False, True):
        with pytest.raises(UnsupportedError, match=r"determinant.*\(onnx\)"):
            save_ep_context(engine, tmp_path / "det.onnx", tmp_path / "ctx.onnx", is_external=is_external)
    assert [path.name for path in tmp_path.iterdir()] == ["det.onnx"]


def test_a_file_that_cannot_be_written_leaves_nothing(net_engine, tmp_path) -> None:
    path, engine = net_engine
    with pytest.raises(FileAccessError):
        save_ep_context(engine, path, tmp_path / "missing" / "ctx.onnx", is_external=True)
    assert list(tmp_path.iterdir()) == []


REGISTER = """
import sys, numpy, onnxruntime
for _ in range(3):
    onnxruntime.register_execution_provider_library("intact", sys.argv[1])
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "INTactExecutionProvider"]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(found, {})
    session = onnxruntime.InferenceSession(sys.argv[2], sess_options=options)
    session.run(None, {"x": numpy.zeros((1, 3, 32, 32), numpy.float32)})
    del session, found
    onnxruntime.unregister_execution_provider_library("intact")
    assert all(d.ep_name != "INTactExecutionProvider" for d in onnxruntime.get_ep_devices())
"""


def test_the_library_comes_and_goes(provider, context_model) -> None:
    words = [sys.executable, "-c", REGISTER, provider, str(context_model)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def wheel_library() -> Path | None:
    """ONNX Runtime's C library, where its wheel has one."""
    libraries = sorted(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))
    return libraries[0] if libraries else None


@pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="a C++ compiler is needed, and Linux")
@pytest.mark.skipif(wheel_library() is None, reason="onnxruntime's wheel has no C library")
def test_a_program_without_python_has_the_engines_bits(provider, net_engine, context_model, tmp_path) -> None:
    program = tmp_path / "run_ep_context"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'csrc'}", "-pthread"]
    source = str(Path(__file__).with_name("run_ep_context.cc"))
    words = [str(COMPILER), *flags, source, "-ldl", "-o", str(program)]
    built = subprocess.run(words, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    feeds = sample(3, 24)
    feeds["x"].tofile(tmp_path / "x")
    for threads in ("1", "2"):
        files = [wheel_library(), provider, context_model, threads, tmp_path / "x", tmp_path / "y"]
        words = [str(word) for word in (program, *files, *feeds["x"].shape)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        want = net_engine[1].run(feeds)["y"]
        assert np.fromfile(tmp_path / "y", np.float32).tobytes() == want.tobytes()
