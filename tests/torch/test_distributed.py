"""Two and four processes: the scales of one, bit for bit, and one set of weights."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from intact.errors import StaleRangeWarning
from intact.torch.distributed import ProcessGroup, is_split, split_batches

# What each process runs; the test's own process runs it too, for the reference. What a scenario leaves behind
# are tensors in a safetensors file, or the text of an error.
PROGRAM = """
import sys
import torch
from safetensors.torch import save_file
from torch import nn
from torch.distributed.fsdp import fully_shard
import intact.torch
from intact.errors import IntactError
from intact.torch import distributed
from intact.torch.models.fsdp import gather


class Stop(Exception):
    pass


def stop(model):
    raise Stop


def shard(model):
    for layer in (model[0], model[4], model):
        fully_shard(layer)


def finetuned(model, data, **options):
    intact.torch.finetune(model, data, epochs=2, lr=0.05, progress=False, **options)


def scenario(name, folder, rank):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    intact.torch.replace_modules(model)
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(40, 2, 6, 6, generator=generator) ** 3
    y = torch.randint(0, 3, (40,), generator=generator)
    data = list(zip(x.split(8), y.split(8)))  # five batches: two processes have unequal shares
    method = {"auto": "auto", "entropy": "entropy", "bias": "entropy"}.get(name, "max")
    if name == "sampler":
        images = torch.utils.data.TensorDataset(x, y)
        sampler = torch.utils.data.distributed.DistributedSampler(images) if rank is not None else None
        data = torch.utils.data.DataLoader(images, batch_size=5, sampler=sampler)
    if name == "nan":
        data[1][0][0, 0, 0, 0] = float("nan")
    options = {"method": method, "correct_bias": name == "bias", "progress": False}
    try:
        result = intact.torch.calibrate(model, data, **options)
    except IntactError as error:
        (folder / f"{name}.{rank}.txt").write_text(str(error))
        return
    if name.startswith("sharded") and rank is not None:
        shard(model)
        for refused in (intact.torch.calibrate, intact.torch.reconstruct):
            try:
                refused(model, data)
                raise AssertionError("a sharded model passed")
            except IntactError as error:
                assert "sharded by fully_shard" in str(error)
    if name == "finetune":
        finetuned(model, data, batchnorm="reestimate")
    if name in ("plain", "sharded"):
        finetuned(model, data, batchnorm="train")
    if name == "sharded again":
        options = {"batchnorm": "train", "checkpoint": folder / "checkpoint"}
        try:
            finetuned(model, data, validate=stop, checkpoint_steps=1, **options)
        except Stop:
            finetuned(model, data, **options)
    if name == "sharded reestimated":
        finetuned(model, data, batchnorm="reestimate", freeze_scales=False)
    if name.endswith("learned"):
        finetuned(model, data, learn="lsq", learn_start="paper")
    if name == "apart":
        intact.torch.reconstruct(model, data, steps=5, inputs="float", method="adaround", progress=False,
                                 state=folder / f"apart.{'alone' if rank is None else 'ranks'}")
    state = {k: gather(v).contiguous().clone() for k, v in model.state_dict().items()}
    for tensor, stats in result.calibration.items():
        state[f"counts {tensor}"] = torch.from_numpy(stats.counts)
    save_file(state, folder / f"{name}.{rank}.safetensors")
"""
MAIN = """
from pathlib import Path
torch.set_num_threads(1)
folder = Path(sys.argv[1])
for name in sys.argv[2].split(","):
    scenario(name, folder, distributed.join().rank)
"""
RANGES = ("auto", "entropy", "bias", "sampler")
SHARDED = ("sharded", "sharded again", "sharded learned", "sharded reestimated")
SCENARIOS = (*RANGES, "finetune", "plain", "learned", "apart", "nan")


def _launch(folder: Path, scenarios: str, processes: int = 2) -> None:
    """Processes under torchrun, which sets the environment that `distributed.join` reads."""
    program = folder / "program.py"
    program.write_text(PROGRAM + MAIN)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(program), str(folder), scenarios],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what every scenario left behind: ranks 0 and 1 of two, and None, one process alone.

    In its folder "four" are those of four processes.
    """
    folder = tmp_path_factory.mktemp("ranks")
    _launch(folder, ",".join((*SCENARIOS, *SHARDED)))
    (folder / "four").mkdir()
    _launch(folder / "four", ",".join((*RANGES, "apart")), 4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    here: dict[str, Any] = {}
    exec(PROGRAM, here)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleRangeWarning)  # the steps of training are large
        for name in SCENARIOS:
            here["scenario"](name, folder, None)
    torch.set_num_threads(threads)
    return folder


def saved_states(folder: Path, name: str) -> tuple[dict[str, torch.Tensor], ...]:
    """(of one process alone, of rank 0, of rank 1)."""
    alone, first, second = (load_file(folder / f"{name}.{rank}.safetensors") for rank in (None, 0, 1))
    return alone, first, second


@pytest.mark.slow
@pytest.mark.parametrize("name", RANGES)
def test_two_and_four_processes_find_the_scales_of_one_bit_for_bit(name: str, outcome: Path) -> None:
    alone, *together = saved_states(outcome, name)
    together += [load_file(outcome / "four" / f"{name}.{rank}.safetensors") for rank in range(4)]
    assert sum(key.endswith("_amax") for key in alone) == 4
    for state in together:
        assert state.keys() == alone.keys()
        for key, value in alone.items():
            assert torch.equal(state[key], value), key


@pytest.mark.slow
def test_finetuning_keeps_the_processes_equal_and_trains(outcome: Path) -> None:
    _, first, second = saved_states(outcome, "finetune")
    calibrated, _, _ = saved_states(outcome, "auto")
    for key, value in first.items():
        assert torch.equal(second[key], value), key
    assert not torch.equal(first["0.weight"], calibrated["0.weight"])
    weight_range = "0._weight_quantizer._amax"
    assert torch.equal(first[weight_range], calibrated[weight_range])
    assert first["1.num_batches_tracked"] == 5


@pytest.mark.slow
def test_learned_ranges_stay_equal_in_all_processes(outcome: Path) -> None:
    _, first, second = saved_states(outcome, "learned")
    calibrated, _, _ = saved_states(outcome, "plain")
    assert all(torch.equal(second[key], value) for key, value in first.items())
    moved = [key for key in first if key.endswith("_amax") and not torch.equal(first[key], calibrated[key])]
    assert len(moved) == 4


@pytest.mark.slow
def test_parts_that_are_learned_apart_are_those_of_one_process(outcome: Path) -> None:
    alone, *together = saved_states(outcome, "apart")
    together += [load_file(outcome / "four" / f"apart.{rank}.safetensors") for rank in range(4)]
    for state in together:
        assert all(torch.equal(state[key], value) for key, value in alone.items())
    learned = load_file(outcome / "apart.alone")
    assert learned.keys() > {"0.weight", "4.weight"}
    assert all(torch.equal(load_file(outcome / "apart.ranks")[key], x) for key, x in learned.items())
    calibrated, _, _ = saved_states(outcome, "entropy")
    assert not torch.equal(alone["0.weight"], calibrated["0.weight"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharded", "plain"), [("sharded", "plain"), ("sharded again", "plain"), ("sharded learned", "learned")]
)
def test_a_sharded_model_trains_as_a_whole_one_bit_for_bit(sharded: str, plain: str, outcome: Path) -> None:
    _, *wanted = saved_states(outcome, plain)
    for rank, want in enumerate(wanted):  # statistics of BatchNorm are those of each one's last batch
        state = load_file(outcome / f"{sharded}.{rank}.safetensors")
        assert state.keys() == want.keys()
        differing = [key for key, value in want.items() if not torch.equal(state[key], value)]
        assert not differing


@pytest.mark.slow
def test_processes_with_unequal_shares_run_a_sharded_model_equally_often(outcome: Path) -> None:
    first, second = (load_file(outcome / f"sharded reestimated.{rank}.safetensors") for rank in range(2))
    assert all(torch.equal(second[key], value) for key, value in first.items())
    assert first["1.num_batches_tracked"] == 4  # of five
    calibrated, _, _ = saved_states(outcome, "plain")
    weight_range = "0._weight_quantizer._amax"
    assert not torch.equal(first[weight_range], calibrated[weight_range])  # it follows the weight


@pytest.mark.slow
def test_a_failure_in_one_process_ends_the_others(outcome: Path) -> None:
    first, second = ((outcome / f"nan.{rank}.txt").read_text() for rank in (0, 1))
    assert second.startswith("0._input_quantizer: x: got 1 NaN and 0 infinities")
    assert first.startswith("process 0 of 2: got an error in processes [1], want all processes to finish")


# ---- dealing, without processes ----


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("limit", [None, 0, 1, 4, 99])
def test_every_batch_goes_to_one_process(size: int, limit: int | None) -> None:
    dealt = [pair for rank in range(size) for pair in split_batches("abcde", ProcessGroup(rank, size), limit)]
    want = list(enumerate("abcde"))[:limit]
    assert sorted(dealt) == want


def test_dealing_stops_drawing_batches_at_the_limit() -> None:
    drawn: list[int] = []
    data = (drawn.append(i) or i for i in range(10))
    assert list(split_batches(data, ProcessGroup(), 3)) == [(0, 0), (1, 1), (2, 2)]
    assert drawn == [0, 1, 2]


def test_a_distributed_sampler_is_recognized() -> None:
    images = torch.utils.data.TensorDataset(torch.arange(8))
    sampler = torch.utils.data.distributed.DistributedSampler(images, num_replicas=2, rank=1, shuffle=False)
    loader = torch.utils.data.DataLoader(images, batch_size=2, sampler=sampler)
    assert is_split(loader)
    assert not is_split(torch.utils.data.DataLoader(images))
    dealt = [(number, batch[0].tolist()) for number, batch in split_batches(loader, ProcessGroup(1, 2))]
    assert dealt == [(1, [1, 3]), (3, [5, 7])]
