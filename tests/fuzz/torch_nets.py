"""Random PyTorch modules as source code: functions and layers with odd arguments, and sizes of all kinds."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tests.fuzz import torch_statements as statements
from torch import Tensor, nn

HEAD = "import math\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"


@dataclass
class Variable:
    """Names a tensor of the forward: an image [B, C, H, W], tokens [B, T, D] or a vector [B, D]."""

    name: str
    sizes: tuple[int, ...]

    @property
    def kind(self) -> str:
        """Return "image", "tokens" or "vector"."""
        return {1: "vector", 2: "tokens", 3: "image"}[len(self.sizes)]


@dataclass
class Program:
    """Holds the source of a module while it is written."""

    rng: random.Random
    layers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def chance(self, share: float) -> bool:
        """Return True so often."""
        return self.rng.random() < share

    def layer(self, code: str) -> str:
        """Return an attribute that holds a layer; an equal one may be called again."""
        if code in self.shared and self.chance(0.5):
            return self.shared[code]
        name = f"self.m{len(self.layers)}"
        self.layers.append(f"        {name} = {code}")
        self.shared[code] = name
        return name

    def parameter(self, *sizes: int) -> str:
        """Return an attribute that holds a parameter."""
        scale = max(sizes[1] if len(sizes) > 1 else 4, 1) ** -0.5
        return self.layer(f"nn.Parameter(torch.randn({', '.join(map(str, sizes))}) * {scale:.4f})")

    def add(self, code: str, *sizes: int) -> Variable:
        """Write ``name = code``; return the variable."""
        variable = Variable(f"v{len(self.variables)}", sizes)
        self.lines.append(f"        {variable.name} = {code}")
        self.variables.append(variable)
        return variable

    def read(self, kind: str) -> Variable | None:
        """Return a variable of a kind, rather a late one."""
        fitting = [v for v in self.variables if v.kind == kind]
        return fitting[min(-1, -int(self.rng.expovariate(1)) - 1) % len(fitting)] if fitting else None

    def like(self, variable: Variable) -> Variable:
        """Return any variable of the same sizes."""
        return self.rng.choice([v for v in self.variables if v.sizes == variable.sizes])


@dataclass(frozen=True)
class RandomNet:
    """Holds a module, its source, and the makers of its inputs."""

    seed: int
    source: str
    module: nn.Module
    inputs: tuple[Callable[[int], Tensor], ...]

    def batch(self, size: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Return inputs of so many samples."""
        torch.manual_seed(seed)
        return tuple(make(size) for make in self.inputs)


def make_net(seed: int) -> RandomNet:
    """Write and build the module of a seed."""
    program = Program(random.Random(seed))
    makers = [_add_input(program, index) for index in range(program.rng.choice((1, 1, 1, 2, 2, 3)))]
    for variable in list(program.variables):
        statements.LAYERS[variable.kind](program, variable)
    for _ in range(program.rng.randint(3, 10)):
        variable = program.rng.choice(program.variables[-4:])
        write = program.rng.choice(statements.BY_KIND[variable.kind])
        write(program, variable)
    names = ", ".join(program.inputs)
    body = "\n".join([*program.lines, f"        return {_answer(program)}"])
    layers = "\n".join(["        super().__init__()", *program.layers])
    source = f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n{layers}\n\n"
    source += f"    def forward(self, {names}):\n{body}\n"
    file = f"<random net {seed}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    scope: dict[str, Any] = {"__name__": file}
    exec(compile(source, file, "exec"), scope)
    torch.manual_seed(seed)
    module = scope["Net"]()
    _fill_statistics(module)
    return RandomNet(seed, source, module.eval(), tuple(makers))


def _add_input(program: Program, index: int) -> Callable[[int], Tensor]:
    rng, name = program.rng, f"x{index}"
    kind = rng.choice(
        ("image", "image", "tokens", "tokens", "vector", "ids") if index else ("image", "tokens")
    )
    if kind == "ids":
        steps, size = rng.choice((3, 7)), rng.choice((16, 24))
        program.inputs[name] = (steps,)
        table = program.layer(f"nn.Embedding(20, {size})")
        program.add(f"{table}({name})", steps, size)
        return lambda batch: torch.randint(0, 20, (batch, steps))
    sizes = {
        "image": (rng.choice((3, 8, 16)), rng.choice((6, 9)), rng.choice((6, 8))),
        "tokens": (rng.choice((3, 5, 7)), rng.choice((16, 24))),
        "vector": (rng.choice((16, 24)),),
    }[kind]
    program.inputs[name] = sizes
    program.variables.append(Variable(name, sizes))
    return lambda batch: torch.randn(batch, *sizes)


def _answer(program: Program) -> str:
    """Return the code of the answer: a tensor, a tuple or a dict."""
    last = program.variables[-1].name
    if program.chance(0.6):
        return last
    other = program.rng.choice(program.variables[len(program.inputs) - 1 :]).name
    if other in program.inputs or other == last:
        return f"{last}, {last}.mean(1)"
    return f"{{'a': {last}, 'b': {other}}}" if program.chance(0.5) else f"({last}, {other})"


def _fill_statistics(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.2)
            part.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
