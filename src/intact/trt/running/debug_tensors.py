"""Debug tensors of an execution context: which a listener is shown."""

from __future__ import annotations

from typing import Any

from intact.trt.base.enums import TensorLocation
from intact.trt.base.itensor import Sizes
from intact.trt.base.trt_object import Reporting


class IDebugListener:
    """Listener interface for the tensors that `mark_debug` marked."""

    def process_debug_tensor(
        self, addr: int, location: TensorLocation, type: Any, shape: Sizes, name: str, stream: int
    ) -> bool:
        """Take a tensor: its address, type and sizes."""
        raise NotImplementedError(f"{self.__class__.__name__} must define process_debug_tensor")


class DebugTensors(Reporting):
    """The part of a context that turns debug tensors on and off."""

    _engine: Any
    _listener: Any
    _debugged: set[str]

    def _complain(self, message: str) -> bool:
        raise NotImplementedError

    def set_debug_listener(self, listener: IDebugListener) -> bool:
        """Set the listener of the debug tensors that are turned on."""
        self._listener = listener
        return True

    def get_debug_listener(self) -> Any:
        """Return the listener set by `set_debug_listener`."""
        return self._listener

    def set_tensor_debug_state(self, name: str, flag: bool) -> bool:
        """Show a debug tensor, or not."""
        if name not in self._engine._record.debugged:
            return self._complain(f"setTensorDebugState: '{name}' was not marked by mark_debug")
        (self._debugged.add if flag else self._debugged.discard)(name)
        return True

    def get_debug_state(self, name: str) -> bool:
        """Return whether a debug tensor is shown."""
        return name in self._debugged

    def set_all_tensors_debug_state(self, flag: bool) -> bool:
        """Show all debug tensors, or none."""
        self._debugged = set(self._engine._record.debugged) if flag else set()
        return True

    @property
    def unfused_tensors_debug_state(self) -> bool:
        """True where the listener sees what `mark_unfused_tensors_as_debug_tensors` marked."""
        return self._between_steps <= self._debugged if self._between_steps else False

    @unfused_tensors_debug_state.setter
    def unfused_tensors_debug_state(self, flag: bool) -> None:
        self._debugged = (
            self._debugged | self._between_steps if flag else self._debugged - self._between_steps
        )

    @property
    def _between_steps(self) -> set[str]:
        return set(self._engine._record.unfused)
