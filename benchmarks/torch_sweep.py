"""PyTorch's own tables of operators and modules through `quantize`, `export` and the engine: what is wrong?

    python benchmarks/torch_sweep.py                            # all: about two hours on one core
    python benchmarks/torch_sweep.py --shard 3/20 --state out   # a part, with its results in out/3-20.jsonl
    python benchmarks/torch_sweep.py --only avg_pool2d --show   # entries by name, with every outcome

Every sample of `op_db` and `module_db` (at most --most kinds of each entry and dtype) becomes a call in a
module. The module is quantized, exported and compiled. An outcome is "equal": near the float module, and
module and engine have the same bits; "refused": an IntactError; "said": the report of the export says that
module and engine differ; "random": the call gives other values each time; "torch": PyTorch itself raises; or
"wrong", of which there have to be none.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.torch_check import STATUSES, check_module
from tests.fuzz.torch_tables import Case, cases


def outcomes(case: Case) -> list[dict[str, Any]]:
    """Return the outcome of each call of a case: of all at once where they agree, else one by one."""
    if len(case.calls) > 1:
        net, args = case.network()
        whole = check_module(net, args)
        if whole.status in ("equal", "said"):
            return [{"name": case.name, "status": whole.status, "message": whole.message}] * len(case.calls)
    rows = []
    for index in range(len(case.calls)):
        single = case.part(index, index + 1)
        net, args = single.network()
        outcome = check_module(net, args)
        rows.append(
            {
                "name": case.name,
                "status": outcome.status,
                "message": outcome.message,
                "call": single.describe(),
            }
        )
    return rows


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the results of the chosen entries; a file of --state holds those of earlier runs."""
    import torch

    torch.set_num_threads(1)
    shard, shards = map(int, options.shard.split("/"))
    state, done = None, {}
    if options.state is not None:
        options.state.mkdir(parents=True, exist_ok=True)
        state = options.state / f"{shard}-{shards}.jsonl"
        for line in state.read_text().splitlines() if state.exists() else ():
            entry = json.loads(line)
            done[entry["case"]] = entry["results"]
    results, begin = [], time.monotonic()
    wanted = cases(options.most, options.tables, lambda name: name.startswith(options.only))
    for number, case in enumerate(wanted):
        if number % shards != shard % shards:
            continue
        if case.name not in done:
            if options.seconds and time.monotonic() - begin > options.seconds:
                print("stopped by --seconds: run again to go on")
                break
            done[case.name] = outcomes(case)
            if state is not None:
                with state.open("a") as file:
                    file.write(json.dumps({"case": case.name, "results": done[case.name]}) + "\n")
        results += done[case.name]
        for result in done[case.name]:
            if options.show or result["status"] == "wrong":
                print(
                    result["name"],
                    result["status"],
                    result.get("message", ""),
                    result.get("call", ""),
                    flush=True,
                )
    return results


def read_stored(folder: Path) -> list[dict[str, Any]]:
    """Return the results of all shards that a folder holds."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [result for line in lines for result in json.loads(line)["results"]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--tables", default="both", choices=("both", "modules", "operators"))
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--stored", action="store_true", help="run nothing: count what --state holds")
    options = parser.parse_args()
    results = read_stored(options.state) if options.stored else run(options)
    for label, is_module in (("modules", True), ("operators", False)):
        rows = [result for result in results if result["name"].endswith(":module") == is_module]
        counts = collections.Counter(result["status"] for result in rows)
        entries = len({result["name"] for result in rows})
        listed = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
        print(f"{label}: {len(rows):,} calls of {entries} entries: {listed}")


if __name__ == "__main__":
    main()
