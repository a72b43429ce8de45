"""Plan files: what goes in comes out, the same bytes for the same plan, and damage is refused or harmless."""

import json
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from intact.engine import steps as s
from intact.engine.files import container
from intact.engine.files import plan_files as files
from intact.engine.plan import Plan
from intact.engine.steps.elements.split_quantize import split_codes
from intact.errors import FileAccessError, FileFormatError, QuantValueError
from intact.placement import Layer

GRID = s.Codes(scale=0.1, zero_point=0, signed=True, low=-128, high=127)


def codes(name, *shape):
    return s.Tensor(name, "codes", shape, GRID)


def floats(name, *shape):
    return s.Tensor(name, "float32", shape)


def arrays():
    """The constants of `example`."""
    rng = np.random.default_rng(0)
    return {
        "w": rng.integers(-128, 128, (4, 3, 3, 4), np.int8),
        "wt": rng.integers(-128, 128, (4, 1, 1, 4), np.int8),
        "wl": rng.integers(-128, 128, (8, 36), np.int8),
        "m": np.ones(1, np.float32),
        "b": np.array([-0.0], np.float32),
        "mf": rng.standard_normal(8).astype(np.float32),
        "wfl": rng.standard_normal((8, 8)).astype(np.float32),
        "wfc": rng.standard_normal((6, 3, 3, 2)).astype(np.float32),
        "ws": rng.standard_normal((1, 8, 2)).astype(np.float32),
        "i": np.array([7], np.int32),
        "table": np.arange(256, dtype=np.uint8),
        "values": np.arange(16, dtype=np.float32),
        "index": np.arange(6),
        "fill": np.array([-7], np.int8),
        "tuples": np.array([[0], [-1]]),
        "choices": np.array([[0], [-1], [1]]),
        "grid": np.zeros((1, 1, 2, 2), np.float32),
        "ipp": np.array([[0, 1], [2, 2]]),
        "ipw": np.float32([[0.5, 0.5], [1, 0]]),
        "zero": np.array([0, -1, 0]),
        "one": np.ones((), np.float32),
        "mask": np.zeros((1, 8), np.float32),
        "model": np.frombuffer(b"some model", np.uint8),
        "one_last": np.array([2]),
        "cosines": np.ones((3, 2), np.float32),
        "wcc": np.ones((2, 8), np.float32),
        "wb": np.arange(24, dtype=np.uint8).reshape(6, 4),
        "wcb": np.arange(128, dtype=np.uint8).reshape(32, 4),
        "wcs": np.linspace(-1, 1, 32, dtype=np.float32).reshape(32, 1),
        "wbs": np.ones((6, 1), np.float32),
        "wdc": np.arange(36, dtype=np.uint8).reshape(1, 3, 3, 4),
        "wds": np.ones(1, np.float32),
        "wsd": np.arange(16, dtype=np.uint8).reshape(1, 8, 2),
        "wss": np.ones((1, 8), np.float32),
    }


def tensors():
    """The tensors of `example`."""
    image, row = ("batch", 4, 6, 6), ("batch", 8)
    declared = [
        floats("x", *image),
        *(codes(n, *image) for n in ("q", "c", "t", "a", "ta", "r", "as", "sl", "pd", "rs")),
    ]
    declared += [codes("p", "batch", 4, 3, 3), codes("cat", "batch", 8, 6, 6), codes("tr", "batch", 6, 6, 8)]
    declared += [
        codes("f", "batch", 36), codes("l", *row), codes("k", 8, 8), codes("mm", *row), codes("cho", 2, 4),
        floats("me", 1, 8),
        *(floats(n, 3, 8) for n in ("ga", "fl", "fm")),
        s.Tensor("is", "bool", (3, 8)), s.Tensor("places", "int64", (3, 1)),
        *(s.Tensor(n, "int64", (3, 1)) for n in ("su", "fo")), floats("ge", 3, 1), floats("ip", 2, 1),
        *(floats(n, 3, 8) for n in ("ch", "pu", "sr")),
        floats("be", 3, 2), s.Tensor("bp", "int64", (3, 2)), floats("gr", 2, 8),
        floats("gs", "batch", 4, 1, 2), codes("st", "batch", 8, 6, 6), s.Tensor("columns", "int64", (3, 2)),
        floats("se", 1, 3, 8), floats("la", 1, 3, 8), floats("las", 1, 2, 4, 4), floats("cc", 1, 3, 8),
        floats("lh", 1, 3, 2), floats("fc", "batch", 6, 6, 6), floats("fu", "batch", 6, 7, 6),
        floats("ccs", 1, 1, 8), floats("cb", 3, 16),
    ]  # fmt: skip
    declared += [floats("ex", "batch", 8), s.Tensor("n", "int64", (2,)), floats("shares", 3, 2)]
    above, below = split_codes("uint16", 2.0**-12, 30000)
    declared += [s.Tensor("above", "codes", row, above), s.Tensor("below", "codes", row, below)]
    declared += [floats(n, *row) for n in ("d", "so", "ln", "g", "cl", "wide", "bi", "own", "o")]
    declared += [s.Tensor("dq", "int8", (3, 8)), floats("dqs", 3, 1), floats("bl", 3, 6), floats("bg", 3, 8)]
    declared += [floats("ro", 1, 3, 8), floats("at", 1, 3, 8), *(floats(n, 1, 2, 3, 4) for n in ("ck", "cv"))]
    declared += [floats("bf", 3, 6), s.Tensor("dc", "uint8", image), s.Tensor("dcz", "uint8", ())]
    return [*declared, floats("dcs"), floats("ldh", 1, 3, 2), floats("dy", "batch", 1, 6, 6)]


def attention_steps():
    """Steps of `example` that language models have."""
    return (
        s.Rotary("turn", (), "se", "one_last", "ro", "cosines", "cosines", 2, True),
        s.CachedAttention(
            "attend", (), "ro", "se", "se", "one_last", "at", "ck", "cv", 2, 2, 0.5, "", "", 3.0, 2
        ),
    )


def steps_of_sizes():
    """Steps that read no tensor."""
    return (
        s.SizeVector("sizes", ("Shape1",), "n", ("batch", '=["*","batch",8]')),
        s.ResizePlaces(
            "places", (), "columns", "batch", 3, "linear", "half_pixel", "floor", -0.75, True, 1.5, "shares"
        ),
    )


def block_steps():
    """Steps with weights in blocks, and steps with states."""
    sizes = {"inputs": 8, "bits": 4, "block": 8}
    blocks = {"weight": "wb", "scales": "wbs", **sizes}
    places = blocks | {"table": "values"}
    experts = {"weight": "wcb", "scales": "wcs", **sizes}
    return (
        s.DynamicQuantize("ranges", (), "ch", "dq", "dqs", block=8),
        s.BlockGather("rows", ("Gather1",), "zero", "bg", **blocks),
        s.BlockFloatLinear("widened", ("MatMul9",), "ga", "bf", **places),
        s.ChosenBlockLinear("experts", (), "dq", "choices", "cb", 2, "dqs", 8, **experts),
        s.BlockLinear("blocks", ("MatMulNBits1",), "dq", "dqs", "bl", 8, **blocks),
        s.DynamicRecurrent("states", ("LSTM2",), "wsd", "wss", x="se", reverse=(True,), last_h="ldh"),
        s.DynamicQuantize("range", (), "x", "dc", "dcs", "dcz"),
        s.DynamicConv("scaled", ("ConvInteger1",), "dc", "dcs", "dy", "wdc", "wds", "dcz", pads=(1, 1, 1, 1)),
        s.LinearAttention("remember", (), "se", "se", "se", "la", "las", 2, 2, 0.5),
        s.CausalConv("convolve", (), "la", "cc", "ccs", "wcc"),
    )


def example():
    """A plan with a step of every kind."""
    epilogue = s.Epilogue("m", bias="b", residual="q", residual_multiplier=0.5, low=0, high=127)
    steps = (
        s.Quantize("quantize", ("Q1",), "x", "q"),
        s.Conv("conv", ("Conv1", "Relu1"), "q", "c", "w", epilogue, pads=(1, 1, 1, 1)),
        s.ConvTranspose("up", (), "c", "t", "wt", s.Epilogue("m", integer_bias="i", activation="gelu")),
        s.Pool("pool", (), "t", "p", "max", kernel=(2, 2), ceil_mode=True),
        s.Add("add", (), "c", "c", "a", low=-3),
        s.Table("table", (), "a", "ta", "table"),
        s.Concat("concat", (), ("ta", "c"), "cat", 1),
        s.Rescale("rescale", (), "cat", "r"),
        s.Transpose("transpose", (), "r", "tr", (0, 2, 3, 1)),
        s.Slice("slice", (), "r", "sl", (0, 0, 1, 0), (1, 1, 2, 1)),
        s.Pad("pad", (), "sl", "pd", ((0, 0), (0, 0), (1, 2), (0, 0)), "fill"),
        s.Resize("resize", (), "pd", "rs", (2, 3), ("index", "index")),
        s.Reshape("reshape", (), "p", "f"),
        s.Linear("linear", (), "f", "l", "wl", s.Epilogue("m")),
        s.MatMul("matmul", (), "l", "k", "mm", s.Epilogue("m")),
        s.Dequantize("dequantize", (), "mm", "d"),
        s.Softmax("softmax", (), "d", "so", -1, gain=0.125, mask="mask"),
        s.LayerNorm("norm", (), "so", "ln", "m", "b", 1e-5, residual="d"),
        s.Function("gelu", (), "ln", "g", "gelu"),
        s.Clip("clip", (), "g", "cl", high=6.0),
        s.FakeQuantize("pair", ("Q2", "DQ2"), "cl", "wide", "uint16", 2.0**-12, 30000, high=60000),
        s.SplitQuantize("split", ("Q3", "DQ3"), "wide", "above", "below", "uint16", 2.0**-12, 30000),
        s.Binary("mul", (), "mul", "wide", "mask", "bi"),
        s.Reduce("mean", (), "bi", "me", "mean", (0,), True),
        s.Gather("gather", (), "me", "zero", "ga"),
        s.ArgMax("largest", (), "ga", "places", 1),
        s.CumSum("sums", (), "places", "su", 1, reverse=True),
        s.Fold("fold", (), "places", "fo", 1, "max"),
        s.GatherElements("those", (), "ga", "su", "ge", 1),
        s.Interpolate("between", (), "ge", "ip", 0, "ipp", "ipw"),
        s.Elementwise("is", (), "is_nan", ("ga",), "is"),
        s.Elementwise("choice", (), "where", ("is", "one", "ga"), "ch"),
        s.Reinterpret("as", (), "r", "as"),
        s.FloatLinear("float_linear", (), "ch", "fl", "wfl", "mf"),
        s.FloatMatMul("float_matmul", (), "fl", "wfl", "fm"),
        s.Reshape("sequence", (), "fm", "se"),
        s.Recurrent("recurrent", (), "ws", "lstm", x="se", reverse=(True,), last_h="lh"),
        s.FloatConvTranspose("up", (), "x", "fu", "wfc", "", (1, 1), (1, 1), (1, 0, 1, 2), (1, 0), 2),
        s.FloatConv("float_conv", (), "x", "fc", "wfc", pads=(1, 0, 1, 2), groups=2),
        s.TopK("best", (), "ch", "be", "bp", 1, 2, largest=False),
        s.ScatterElements("put", (), "ch", "bp", "be", "pu", 1, "add"),
        s.ChosenLinear("chosen", (), "f", "tuples", "cho", "wl", 2, s.Epilogue("m")),
        s.GatherRows("rows", (), "pu", "tuples", "gr", (3,)),
        s.ScatterRows("back", (), "pu", "tuples", "gr", "sr", (3,), "max"),
        s.StackPlanes("planes", (), "q", "st", 1, 2, pads=(1, 0), rows=False),
        s.GridSample("grid", (), "x", "grid", "gs", padding="border"),
        s.Expand("expand", (), "me", "ex"),
        *attention_steps(),
        *block_steps(),
        *steps_of_sizes(),
        s.Call("own", ("Own1",), "doc::Own", ("bi",), ("own",), '{"alpha": 2}'),
        s.FallbackSubgraph("rest", ("Loop1",), ("bi",), ("o",), "model", reason="no kernel for Loop"),
    )
    layer = Layer("conv", "Conv", ("Conv1", "Relu1"), "int8", "Conv+Relu", "its inputs are quantized: 'ß'")
    return Plan(
        steps, {t.name: t for t in tensors()}, arrays(), ("x", "k"), ("o",), (layer,), ("folded BatchNorm",)
    )


PACKED = {("w", "vnni"): np.arange(200, dtype=np.uint8), ("wl", "avx2"): np.ones((3, 5), np.int32)}


def same(a, b):
    """Return whether two plans are equal, arrays included."""
    shallow = [replace(plan, constants={}) for plan in (a, b)]
    return shallow[0] == shallow[1] and same_arrays(a.constants, b.constants)


def same_arrays(a, b):
    return a.keys() == b.keys() and all(
        a[key].dtype == b[key].dtype and a[key].shape == b[key].shape and a[key].tobytes() == b[key].tobytes()
        for key in a
    )


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "model.plan"
    files.save(path, example(), PACKED)
    return path.read_bytes()


def write_plan(folder, content):
    path = folder / "model.plan"
    path.write_bytes(content)
    return path


def test_the_example_has_a_step_of_every_kind():
    assert {step.kind for step in example().steps} == set(s.KINDS)


def test_what_goes_in_comes_out(tmp_path):
    path = tmp_path / "model.plan"
    files.save(path, example(), PACKED)
    loaded = files.load(path)
    assert same(loaded.plan, example())
    assert same_arrays(loaded.packed, PACKED)
    assert [p.name for p in tmp_path.iterdir()] == ["model.plan"]


def test_equal_plans_give_equal_files_and_so_does_a_loaded_one(content, tmp_path):
    loaded = files.load(write_plan(tmp_path, content))
    reordered = {key: PACKED[key] for key in reversed(PACKED)}
    for plan, packed in ((example(), reordered), (loaded.plan, loaded.packed)):
        files.save(tmp_path / "again.plan", plan, packed)
        assert (tmp_path / "again.plan").read_bytes() == content


def test_a_plan_may_be_saved_over_the_file_that_it_was_read_from(content, tmp_path):
    path = write_plan(tmp_path, content)
    loaded = files.load(path)
    files.save(path, loaded.plan, loaded.packed)
    assert path.read_bytes() == content and same(loaded.plan, example())


def test_the_safetensors_library_reads_it(content, tmp_path):
    with safe_open(write_plan(tmp_path, content), framework="numpy") as file:
        assert json.loads(file.metadata()["intact.plan"])["version"] == files.VERSION
        stored = file.get_tensor("constant/wl").tobytes()
    assert stored[: 8 * 36] == example().constants["wl"].tobytes()


def test_arrays_lie_as_kernels_want_them(content, tmp_path):
    loaded = files.load(write_plan(tmp_path, content))
    end = len(content)
    for array in (*loaded.plan.constants.values(), *loaded.packed.values()):
        address = array.__array_interface__["data"][0]
        assert address % container.ALIGNMENT == 0 and not array.flags.writeable
    assert content[end - container.SLACK :] == bytes(container.SLACK)


def test_only_what_is_asked_for_is_read(content, tmp_path):
    """A packed array is damaged: whoever asks for it hears so, nobody else."""
    place = content.rindex(bytes(range(200)))
    damaged = bytearray(content)
    damaged[place] ^= 1
    loaded = files.load(write_plan(tmp_path, bytes(damaged)))
    assert ("w", "vnni") in loaded.packed
    assert same(loaded.plan, example())
    assert loaded.packed["wl", "avx2"].sum() == 15
    with pytest.raises(FileFormatError, match=r"'w', 'vnni'.*do not match their checksum"):
        loaded.packed["w", "vnni"]
    with pytest.raises(FileFormatError, match="do not match their checksum"):
        loaded.packed.verify(loaded.packed, threads=2)


def assert_refused_or_harmless(path):
    try:
        loaded = files.load(path)
        assert same(loaded.plan, example()) and same_arrays(loaded.packed, PACKED)
    except FileFormatError as error:
        assert str(path) in str(error)


@given(data=st.data())
def test_flipped_bits(content, tmp_path_factory, data):
    header = 8 + struct.unpack("<Q", content[:8])[0]
    # Half of the flips hit the header.
    place = data.draw(st.integers(0, header - 1) | st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    assert_refused_or_harmless(write_plan(tmp_path_factory.mktemp("flip"), bytes(damaged)))


@pytest.mark.slow
def test_flipped_bytes_everywhere(content, tmp_path):
    for place in range(0, len(content), 11):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        assert_refused_or_harmless(write_plan(tmp_path, bytes(damaged)))


@given(data=st.data())
def test_truncated_and_lengthened(content, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cut")
    for wrong in (content[: data.draw(st.integers(0, len(content) - 1))], content + bytes(64)):
        with pytest.raises(FileFormatError):
            files.load(write_plan(folder, wrong))


@given(st.binary(max_size=200))
def test_arbitrary_bytes(tmp_path_factory, noise):
    folder = tmp_path_factory.mktemp("noise")
    length = struct.pack("<Q", max(len(noise) - 8, 0))
    for wrong in (noise, length + noise[8:], struct.pack("<Q", 56) + noise):
        with pytest.raises(FileFormatError):
            files.load(write_plan(folder, wrong))


def forge_plan(path, change, body=None):
    """A file with right checksums, whatever its JSON says; `change` edits it, `body` stands in its place."""
    files.save(path, example(), PACKED)
    metadata, views = container.read(path)
    content = json.loads(metadata["intact.plan"])
    change(content)
    text = json.dumps(content) if body is None else body
    arrays = {name: view[: len(view) - 64].copy() for name, view in views.items()}
    container.write(
        path, arrays, {"intact.plan": text, "intact.plan.crc32": f"{zlib.crc32(text.encode()):08x}"}
    )
    return path


def put(*keys, value):
    def change(content):
        *path, last = keys
        for key in path:
            content = content[key]
        content[last] = value

    return change


def drop(*keys):
    def change(content):
        *path, last = keys
        for key in path:
            content = content[key]
        del content[last]

    return change


HOSTILE = {
    "no version": (drop("version"), "version None"),
    "a later version": (put("version", value=files.VERSION + 1), f"want {files.VERSION}"),
    "another byte order": (put("byte_order", value="big"), "byte order 'big', want 'little'"),
    "no steps": (drop("steps"), "steps: got None"),
    "steps that are no list": (put("steps", value={}), "steps: got {}"),
    "an unknown kind": (put("steps", 0, "kind", value="shell"), r"steps\[0\].kind: got 'shell'"),
    "a kind that is no text": (put("steps", 0, "kind", value=["conv"]), r"steps\[0\].kind"),
    "an unknown field": (put("steps", 0, "run", value="x"), r"steps\[0\]: .*want an object with the fields"),
    "a missing field": (drop("steps", 1, "pads"), r"steps\[1\]: .*want an object with the fields"),
    "text for a number": (
        put("steps", 1, "groups", value="1"),
        r"steps\[1\].groups: got '1', want an integer",
    ),
    "a truth for a number": (put("steps", 1, "groups", value=True), r"steps\[1\].groups: got True"),
    "a huge number": (put("steps", 1, "groups", value=2**63), r"steps\[1\].groups: got 9223372036854775808"),
    "three pads": (put("steps", 1, "pads", value=[1, 1, 1]), r"steps\[1\].pads: .*want 4 entries"),
    "an integer for a real": (
        put("steps", 1, "ending", "residual_multiplier", value=1),
        "want a finite number",
    ),
    "infinity": (put("steps", 1, "ending", "high", value=float("inf")), "ending.high: got inf"),
    "another mode": (put("steps", 3, "mode", value="min"), "got 'min', want one of 'average', 'max'"),
    "negative groups": (put("steps", 1, "groups", value=-1), "step 'conv': got groups -1, "),
    "a stride of 0": (put("steps", 1, "strides", value=[0, 1]), "strides and dilations above 0"),
    "negative pads": (put("steps", 1, "pads", value=[-1, 0, 0, 0]), "pads of 0 or more"),
    "no such axis": (put("steps", 6, "axis", value=4), "axis 4"),
    "no permutation": (put("steps", 8, "perm", value=[0, 1, 1, 3]), "a permutation"),
    "no such tensor": (put("steps", 1, "x", value="y"), "step 'conv': got 'y', which no step"),
    "a constant for a tensor": (put("steps", 1, "x", value="w"), "step 'conv': got 'w', which no step"),
    "a tensor for a constant": (put("steps", 1, "weight", value="x"), "no constant 'x'"),
    "no such constant": (put("steps", 1, "weight", value="v"), "no constant 'v'"),
    "weights of another rank": (put("steps", 1, "weight", value="wl"), "want int8 of rank"),
    "weights of another dtype": (put("steps", 13, "weight", value="m"), "want int8 of rank"),
    "a wrong table": (put("steps", 5, "table", value="model"), "256 entries"),
    "a table of 8 values": (put("steps", 51, "table", value="mf"), "16 values of codes of 4 bits"),
    "a table of bytes": (put("steps", 51, "table", value="table"), "want float32 of rank"),
    "a zero point of a table": (put("steps", 51, "zero_points", value="wb"), "no zero points of places"),
    "a wrong multiplier": (put("steps", 1, "ending", "multiplier", value="i"), "want float32 of rank"),
    "read before made": (put("steps", 1, "x", value="c"), "which no step before it makes"),
    "made twice": (put("steps", 1, "y", value="q"), "names that are given once"),
    "outputs that nobody makes": (put("outputs", value=["y"]), "outputs: got 'y'"),
    "inputs of another name": (put("inputs", value=["x", "z"]), "the inputs: got 'z'"),
    "a tensor twice": (put("tensors", 1, "name", value="x"), "tensors: got 'a name twice'"),
    "a negative size": (put("tensors", 0, "shape", 1, value=-4), "tensor 'x'"),
    "an unknown dtype": (put("tensors", 0, "dtype", value="object"), "tensor 'x'"),
    "codes without a grid": (put("tensors", 0, "dtype", value="codes"), "tensor 'x'"),
    "a scale of 0": (put("tensors", 1, "codes", "scale", value=0.0), "tensor 'q'"),
    "a zero point of no byte": (put("tensors", 1, "codes", "zero_point", value=128), "tensor 'q'"),
    "a constant of objects": (put("constants", 0, "dtype", value="object"), "'constant/b': got"),
    "a constant that is too long": (put("constants", 0, "shape", value=[2**60, 2**60]), "bytes"),
    "a constant of another shape": (put("constants", 0, "shape", value=[40]), "160 and their padding"),
    "a constant that is not there": (put("constants", 0, "name", value="z"), "'constant/z': got 'no bytes'"),
    "one constant less": (drop("constants", 1), "arrays of no constant"),
    "one packed array less": (drop("packed", 1), "arrays of no constant"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_json(tmp_path, case):
    change, message = HOSTILE[case]
    path = forge_plan(tmp_path / "model.plan", change)
    with pytest.raises(FileFormatError, match=message) as caught:
        files.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{", "[]", "null", '"\\ud800"', "{}"], ids=lambda text: text[:8]
)
def test_hostile_text(tmp_path, text):
    with pytest.raises(FileFormatError):
        files.load(forge_plan(tmp_path / "model.plan", lambda content: None, text))


@given(data=st.data())
def test_arbitrary_values_anywhere(tmp_path_factory, data):
    """Any JSON in the place of any value of the plan: refused, or a plan that says something else."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )

    def change(content):
        while True:
            key = data.draw(
                st.sampled_from(sorted(content) if isinstance(content, dict) else range(len(content)))
            )
            if (
                not isinstance(content[key], dict | list)
                or not content[key]
                or data.draw(st.integers(0, 5)) == 0
            ):
                content[key] = data.draw(values)
                return
            content = content[key]

    path = forge_plan(tmp_path_factory.mktemp("any") / "model.plan", change)
    try:
        loaded = files.load(path)
        assert isinstance(loaded.plan, Plan)
    except FileFormatError as error:
        assert str(path) in str(error)


def test_a_dtype_that_files_do_not_hold(tmp_path):
    plan = replace(example(), constants={"c": np.zeros(1, np.complex64)})
    with pytest.raises(QuantValueError, match="'c': got dtype complex64"):
        files.save(tmp_path / "model.plan", plan)


def test_a_file_of_another_kind(tmp_path):
    container.write(tmp_path / "other", {"a": np.zeros(3, np.uint8)}, {"some": "thing"})
    with pytest.raises(FileFormatError, match="metadata some"):
        files.load(tmp_path / "other")
    assert not files.is_plan(tmp_path / "other")


def test_a_plan_is_known_by_its_first_bytes(content, tmp_path):
    assert files.is_plan(write_plan(tmp_path, content))
    (tmp_path / "empty").touch()
    assert not files.is_plan(tmp_path / "empty")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileAccessError, match=r"missing\.plan': got 'No such file"):
        files.load(tmp_path / "missing.plan")
