"""ISerializationConfig and IRuntimeConfig: how an engine is serialized, and how its contexts are made."""

from __future__ import annotations

from intact.trt.base.enums import ExecutionContextAllocationStrategy, SerializationFlag
from intact.trt.base.logger import ILogger
from intact.trt.base.trt_object import Interface


class ISerializationConfig(Interface):
    """Flags for ``ICudaEngine.serialize_with_config``; kept, as a plan has one form.

    Attributes:
        flags: Bits of `SerializationFlag`.
    """

    flags: int = 0

    def __init__(self, logger: ILogger | None = None) -> None:
        self._logger = logger

    def set_flag(self, flag: SerializationFlag) -> bool:
        """Turn a flag on."""
        self.flags |= 1 << int(flag)
        return True

    def clear_flag(self, flag: SerializationFlag) -> bool:
        """Turn a flag off."""
        self.flags &= ~(1 << int(flag))
        return True

    def get_flag(self, flag: SerializationFlag) -> bool:
        """Return whether a flag is on."""
        return bool(self.flags >> int(flag) & 1)


class IRuntimeConfig(Interface):
    """Settings for ``ICudaEngine.create_execution_context``; kept, as an engine has memory of its own."""

    def __init__(self, logger: ILogger | None = None) -> None:
        self._logger = logger
        self._strategy = ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(self, strategy: ExecutionContextAllocationStrategy) -> None:
        """Set the strategy, which is only stored: the engine has memory of its own."""
        self._note("set_execution_context_allocation_strategy")
        self._strategy = ExecutionContextAllocationStrategy(strategy)

    def get_execution_context_allocation_strategy(self) -> ExecutionContextAllocationStrategy:
        """Return the strategy set by `set_execution_context_allocation_strategy`."""
        return self._strategy
