"""Runs a module on all batches at once, each up to its next linear layer without codes.

Each batch runs in a thread of its own that stops in front of a layer, and goes on when the layer has changed:
no layer runs twice, and code with branches needs no trace. One thread runs at a time.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from intact.torch.block_weights.linear_modules import replace_modules_at

__all__ = ["Gate", "ModuleStream", "shared_inputs"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
_current = threading.local()


class _Stop(BaseException):
    """Ends the thread of a batch."""


class Gate(nn.Module):
    """Stands in the place of a linear layer, and stops batches in front of it until it is open.

    Attributes:
        path: Of the layer.
        inner: What it computes.
        is_open: Whether batches pass.
    """

    def __init__(self, path: str, inner: nn.Module) -> None:
        super().__init__()
        self.path, self.inner, self.is_open = path, inner, False

    def forward(self, x: Tensor) -> Any:
        """Compute `inner`, when the gate is open."""
        run: _Run | None = getattr(_current, "run", None)
        while run is not None and not self.is_open:
            run.wait(self, x)
        return self.inner(x)


class _Run:
    """One batch in its thread.

    Attributes:
        gate: In front of which it stands; None: it has ended.
        x: What the gate's layer reads.
    """

    def __init__(self, model: nn.Module, call: Call) -> None:
        self._model, self._call = model, call
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._ends = False
        self.gate: Gate | None = None
        self.x: Tensor | None = None
        self._threads = torch.get_num_threads()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def advance(self) -> None:
        """Run to the next gate that is not open; raises what the model raises."""
        if self._thread.is_alive():
            self._go.release()
            self._stopped.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """End the thread."""
        self._ends = True
        if self._thread.is_alive():
            self._go.release()
        self._thread.join()

    def wait(self, gate: Gate, x: Tensor) -> None:
        """Stand in front of a gate; called in the thread."""
        self.gate, self.x = gate, x
        self._stopped.release()
        self._go.acquire()
        self.gate = self.x = None
        if self._ends:
            raise _Stop

    def _main(self) -> None:
        self._go.acquire()
        _current.run = self
        try:
            if not self._ends:
                torch.set_num_threads(self._threads)
                with torch.no_grad():
                    self._model(*self._call[0], **self._call[1])
        except _Stop:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self.gate = self.x = None
            self._call = (), {}
            self._stopped.release()


class ModuleStream:
    """Gives the inputs of one linear layer after the other; use as a context.

    Args:
        model: In evaluation mode; gates stand in it while the context lasts.
        layers: By path.
        calls: Arguments of the model, for each batch.
    """

    def __init__(self, model: nn.Module, layers: Mapping[str, nn.Module], calls: Sequence[Call]) -> None:
        self._model, self._calls, self._layers = model, calls, layers
        self.gates = {path: Gate(path, layer) for path, layer in layers.items()}

    def __enter__(self) -> ModuleStream:
        self._root = replace_modules_at(self._model, self.gates)
        self.runs = [_Run(self._root, call) for call in self._calls]
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for run in self.runs:
            run.close()
        if kind is not None:
            replace_modules_at(self._root, self._layers)

    def size_of(self, path: str) -> int:
        """Return K of a layer, the size of its inputs' last axis."""
        layer: Any = self._layers[path]
        return int(layer.in_features)

    def advance(self) -> None:
        """Bring every batch to a gate that is not open, or to its end."""
        for run in self.runs:
            if run.gate is None or run.gate.is_open:
                run.advance()

    def finish(self) -> nn.Module:
        """Return the model with what is behind the gates in their place."""
        return replace_modules_at(self._root, {path: gate.inner for path, gate in self.gates.items()})


def shared_inputs(model: nn.Module, layers: Mapping[str, nn.Module], call: Call) -> list[tuple[str, ...]]:
    """Run a model once, and return the layers that read one tensor together, in the order of their calls.

    Layers that are not called are left out.

    Args:
        model: In evaluation mode.
        layers: By path.
        call: Arguments of the model.
    """
    read: list[tuple[weakref.ref[Tensor], int, list[str]]] = []
    met: set[str] = set()

    def record(path: str, x: Tensor) -> None:
        if path in met:
            return
        met.add(path)
        for tensor, version, paths in read:
            if tensor() is x and version == x._version:
                paths.append(path)
                return
        read.append((weakref.ref(x), x._version, [path]))

    with ExitStack() as stack, torch.no_grad():
        for path, layer in layers.items():
            hook = layer.register_forward_pre_hook(lambda _, args, path=path: record(path, args[0]))
            stack.callback(hook.remove)
        model(*call[0], **call[1])
    return [tuple(paths) for _, _, paths in read]
