"""Work on a local Ray cluster of two workers: what one process would have found, bit for bit."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.onnx_models import uneven_products
from tests.tuning.clocks import steady

import intact
from intact.cli import main
from intact.errors import MissingExtraError, QuantValueError, UnsupportedError
from intact.job_pool import InProcess, JobPool
from intact.ptq import calibrate, quantize
from intact.ray_pool import RayPool

ROOT = Path(__file__).parents[1]
WITHOUT = "Ray is not installed: it has no wheel for this Python or machine"
PLAIN: dict[str, Any] = {"method": "max", "equalization": False, "bias_correction": False, "progress": False}


def test_without_ray_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'intact-quant\[ray\]'"):
        RayPool("local")


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"threads": 0}, {"threads": 10**6}])
def test_numbers_are_checked_before_anything_starts(arguments: dict[str, int]) -> None:
    with pytest.raises(QuantValueError):
        RayPool("local", **arguments)


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    pytest.importorskip("ray", reason=WITHOUT)
    with pytest.raises(QuantValueError, match=r"ray '127\.0\.0\.1:1': got .*refused.*, want a Ray cluster"):
        RayPool("127.0.0.1:1")


def scale_item(common: int, item: int) -> int:
    if item == 5:
        raise QuantValueError("item", "5", "another", "leave it out")
    return common * item


def process(common: None, item: int) -> int:
    return os.getpid()


def count(common: list[int], item: int) -> np.ndarray:
    return np.full(10, common[0] + item)


def check_jobs(pool: JobPool) -> None:
    drawn: list[int] = []
    numbers = (drawn.append(i) or i for i in range(100))
    result = pool.map(scale_item, 3, numbers)
    assert [next(result) for _ in range(5)] == [0, 3, 6, 9, 12]
    assert len(drawn) < 20
    with pytest.raises(QuantValueError, match="item: got 5, want another"):
        next(result)


def test_jobs_of_one_process_come_in_order_and_are_drawn_as_they_are_done() -> None:
    check_jobs(InProcess())


def data() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((150, 16)).astype(np.float32)


def check_calibration(pool: JobPool, folder: Path) -> None:
    """The .calib files, and the files of a quantization that measures on what calibration keeps."""
    for name, item in (("here", None), ("there", pool)):
        calibrate(uneven_products(16, 3), data(), progress=False, pool=item).save(folder / f"{name}.calib")
        quantize(uneven_products(16, 3), data(), progress=False, pool=item).save(folder / f"{name}.onnx")
    for suffix in (".calib", ".onnx"):
        assert (folder / f"here{suffix}").read_bytes() == (folder / f"there{suffix}").read_bytes()
    bad = data()
    bad[140, 3] = np.nan
    messages = []
    for item in (None, pool):
        with pytest.raises(intact.errors.CalibrationError) as raised:
            calibrate(uneven_products(16, 3), bad, progress=False, pool=item)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert "batch 17" in messages[0]


def test_parts_of_the_data_count_as_the_whole(tmp_path: Path) -> None:
    check_calibration(InProcess(), tmp_path)


def tune_net(pool: JobPool | None, record: Path) -> intact.tuning.TuneResult:
    want = (
        intact.graph.Session(uneven_products(16, 3).SerializeToString())
        .run({"x": data()})["y"]
        .astype(np.float64)
    )

    def score(engine: Any) -> float:
        return round(-1e6 * float(((engine(data()) - want) ** 2).sum() / (want**2).sum()), 1)

    score.key = "error"
    return intact.tune(
        uneven_products(16, 3),
        data(),
        evaluate=score,
        max_drop=20.0,
        clock=steady,
        pool=pool,
        record=record,
        **PLAIN,
    )


def check_tuning(pool: JobPool, folder: Path) -> None:
    here, there = (
        tune_net(item, folder / f"{place}.json") for item, place in ((None, "here"), (pool, "there"))
    )
    assert len(here.trials) > 2
    assert here.to_json() == there.to_json()
    assert here.proto.SerializeToString(deterministic=True) == there.proto.SerializeToString(
        deterministic=True
    )
    records = [json.loads((folder / f"{place}.json").read_text()) for place in ("here", "there")]
    assert records[0] == records[1]
    assert tune_net(pool, folder / "there.json").to_json() == there.to_json()


def test_choices_that_are_made_ahead_are_those_of_the_search(tmp_path: Path) -> None:
    class Wide(InProcess):
        size = 5

    check_tuning(Wide(), tmp_path)


def check_reconstruction(pool: JobPool) -> None:
    torch = pytest.importorskip("torch", reason="reconstruction needs PyTorch")
    import intact.torch

    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(32, 4)).eval()
        batches = torch.randn(32, 3, 6, 6).split(8)
    model = intact.torch.quantize(
        model, batches, method="mse", weight_method="mse", weights="int4", correct_bias=True, progress=False
    ).model
    threads, states = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for item in (None, pool):
            result = copy.deepcopy(model)
            report = intact.torch.reconstruct(
                result, batches, steps=20, inputs="float", pool=item, progress=False
            )
            states.append((result.state_dict(), report.blocks))
    finally:
        torch.set_num_threads(threads)
    (here, blocks), (there, rest) = states
    assert blocks == rest
    assert len(blocks) == 3 and any(block.moved for block in blocks)
    assert here.keys() == there.keys()
    assert all(torch.equal(there[key], value) for key, value in here.items())


def check_verbs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(uneven_products(16, 3), folder / "model.onnx")
    np.save(folder / "data.npy", data())
    inputs = [str(folder / "model.onnx"), "--data", str(folder / "data.npy"), "--no-progress"]
    for name, ray in (("alone", []), ("shared", ["--ray", "local"])):
        with pytest.raises(SystemExit) as left:
            main(["calibrate", *inputs, "-o", str(folder / f"{name}.calib"), *ray])
        assert left.value.code == 0
    assert (folder / "alone.calib").read_bytes() == (folder / "shared.calib").read_bytes()
    capsys.readouterr()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayPool]:
    ray = pytest.importorskip(
        "ray", reason="Ray is not installed: it has no wheel for this Python or machine"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else its workers wait for everything else
    yield RayPool("local", workers=2)
    ray.shutdown()


# One test, so that one cluster is started, whichever processes share the tests.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Ray's own
def test_two_workers_find_what_one_process_finds(
    cluster: RayPool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (cluster.size, cluster.threads) == (2, 1)
    check_jobs(cluster)
    workers = set(cluster.map(process, None, range(20)))
    assert os.getpid() not in workers
    assert not next(iter(cluster.map(count, [1], [1]))).flags.writeable
    for check in (check_calibration, check_tuning):
        folder = tmp_path / check.__name__
        folder.mkdir()
        check(cluster, folder)
    check_reconstruction(cluster)
    check_verbs(tmp_path, capsys)
    with pytest.raises(QuantValueError, match="can be pickled"):
        next(iter(cluster.map(process, (i for i in range(3)), [1])))
    monkeypatch.setattr("intact.ray_pool.versions", lambda: {"intact": "0.0.1"})
    with pytest.raises(UnsupportedError, match=r"got intact .* \(here 0\.0\.1\)"):
        next(iter(cluster.map(process, None, [1])))
