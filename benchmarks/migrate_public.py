"""Takes public calibrator scripts and calibration caches through ``intact migrate``.

    git clone --branch v8.6.1 https://github.com/NVIDIA/TensorRT
    git clone https://github.com/jkjung-avt/tensorrt_demos
    git clone https://github.com/Wulingtian/yolov5_tensorrt_int8_tools
    python benchmarks/migrate_public.py FOLDER_OF_THE_CHECKOUTS [--only NAME]

Nothing of them is kept here. Scripts run on small models of the names that they ask for
(`samples/models.py`).
A cache gets a made network, a convolution and an activation in turn, whose tensors have the cache's names.
Each is migrated by the command line. Then both engines, the implicit one and that of the written file, run
once more on other inputs: their difference must be at most the figure of the report.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from intact.calib import TrtCache
from intact.trt.migration import ImplicitRecipe, read_ranges
from intact.trt.migration.engines import build_engines

HERE = Path(__file__).parent
CHANNELS, SIZE, BATCHES = 16, 8, 4
INT8 = (
    "-o {data}/{model}.onnx -e {data}/{name}.engine -p int8 --calib_input {data}/pictures "
    "--calib_cache {data}/{name}.cache --calib_num_images 3 --calib_batch_size 1"
)


@dataclass(frozen=True)
class Source:
    """A public script or cache.

    Attributes:
        path: Below the folder of checkouts.
        model: Name of the made model that a script reads; "" for a cache.
        arguments: Of the script.
        dialect: That the script speaks.
    """

    path: str
    model: str = ""
    arguments: str = ""
    dialect: str = "8.x"

    @property
    def name(self) -> str:
        """Return the last folder and the file."""
        return "/".join(Path(self.path).parts[-2:])


_SAMPLES = "TensorRT/samples/python"
_DEMOS, _TOOLS = "tensorrt_demos/yolo/calib_cache", "yolov5_tensorrt_int8_tools/models_save"
SOURCES = (
    Source(f"{_SAMPLES}/efficientnet/build_engine.py", "classes", INT8),
    Source(f"{_SAMPLES}/efficientdet/build_engine.py", "boxes", INT8),
    Source(f"{_SAMPLES}/tensorflow_object_detection_api/build_engine.py", "boxes", INT8),
    Source(f"{_SAMPLES}/detectron2/build_engine.py", "masks", "-c none " + INT8),
    *(
        Source(f"{_DEMOS}/calib_{name}.bin")
        for name in (
            "yolov3-int8-608", "yolov3-spp-int8-608", "yolov3-tiny-int8-416", "yolov4-int8-608",
            "yolov4-tiny-int8-416",
        )
    ),
    *(Source(f"{_TOOLS}/{name}_calibration.cache") for name in ("nanodet", "yolov5s")),
)  # fmt: skip


def model_of_cache(cache: TrtCache, path: Path) -> None:
    """Write a network of one convolution after another, whose tensors have the names of a cache's scales."""
    rng, names = np.random.default_rng(0), list(cache.scales)
    nodes, weights = [], []
    for number, (x, y) in enumerate(pairwise(names)):
        if number % 2:
            nodes.append(helper.make_node("LeakyRelu", [x], [y], name=f"relu{number}", alpha=0.1))
            continue
        w = (rng.standard_normal((CHANNELS, CHANNELS, 1, 1)) / np.sqrt(CHANNELS)).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"weights{number}"))
        nodes.append(helper.make_node("Conv", [x, f"weights{number}"], [y], name=f"conv{number}"))
    shape = [1, CHANNELS, SIZE, SIZE]
    ports = [helper.make_tensor_value_info(n, 1, shape) for n in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "made", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def migrate(words: list[str], source: Source) -> dict:
    """Run the command line; return its JSON.

    Raises:
        RuntimeError: It failed; the last line that it printed.
    """
    paths = [HERE / "samples", os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    if source.path.endswith(".py"):
        environment["INTACT_TRT_DIALECT"] = source.dialect
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "intact", "migrate", "--json", *words],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    figures: dict = json.loads(done.stdout)
    return figures


def difference_again(model: Path, cache: Path, written: Path) -> float:
    """Return the largest difference of both engines on inputs that the report did not see."""
    scales, kind = read_ranges(cache)
    engines = build_engines(ImplicitRecipe(model, scales, kind), written.read_bytes())
    rng = np.random.default_rng(5)
    batches = []
    for _ in range(BATCHES):
        shapes = {p.name: [n if isinstance(n, int) else 1 for n in p.shape] for p in engines.explicit.inputs}
        batches.append({name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()})
    return engines.measure(batches).largest


def run(source: Source, folder: Path, work: Path, data: Path) -> tuple[dict, float | None]:
    """Migrate one source; return the report's figures, and the difference on other inputs, if known."""
    path, out = folder / source.path, work / "migrated.onnx"
    if path.suffix != ".py":
        model = work / "made.onnx"
        model_of_cache(read_ranges(path)[0], model)
        figures = migrate([str(path), "--onnx", str(model), "-o", str(out)], source)
        return figures, difference_again(model, path, out)
    name = path.parent.name
    words = source.arguments.format(data=data, model=source.model, name=name).split()
    figures = migrate([str(path), "--run", "-o", str(out), "--", *words], source)
    cache = data / f"{name}.cache"
    model = data / f"{source.model}.onnx"
    return figures, difference_again(model, cache, out) if cache.is_file() else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder with the checkouts")
    parser.add_argument("--only", default="", help="only paths with this text")
    options = parser.parse_args()
    count, folder = 0, options.folder.resolve()
    rows: list[tuple[float, float | None]] = []
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        subprocess.run([sys.executable, str(HERE / "samples" / "models.py"), str(data)], check=True)
        for number, source in enumerate(s for s in SOURCES if options.only in s.path):
            work = Path(temporary) / str(number)
            work.mkdir()
            try:
                figures, again = run(source, folder, work, data)
            except RuntimeError as error:
                count += 1
                print(f"{source.name:44} failed: {error}", flush=True)
                continue
            again_text = "-" if again is None else f"{again:.3g}"
            rows.append((figures["largest"], again))
            print(
                f"{source.name:44} {figures['pairs']:4} pairs, largest difference {figures['largest']:.3g}, "
                f"on other inputs {again_text}; {len(figures['by_hand'])} places by hand", flush=True,
            )  # fmt: skip
    within = sum(again is None or again <= figure for figure, again in rows)
    print(f"{count + len(rows)} scripts and caches: {within} migrated, and within the figure of the report")


if __name__ == "__main__":
    main()
