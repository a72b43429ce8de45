"""Runtime: reads serialized engines."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from intact.engine.files import plan_files as files
from intact.errors import IntactError, UnsupportedError
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import ErrorCodeTRT, TempfileControlFlag
from intact.trt.base.host_interfaces import ILogger
from intact.trt.base.trt_object import Reporting
from intact.trt.building.build_record import BuildRecord
from intact.trt.plugins.plugin_registry import IPluginRegistry, get_plugin_registry, remake
from intact.trt.running.cuda_engine import ICudaEngine


class Runtime(Reporting):
    """Reads serialized engines.

    Attributes:
        max_threads: Threads of the engines that it makes; None: all that the process may use.
    """

    max_threads: int | None = None
    DLA_core: int = -1
    gpu_allocator: Any = None
    temporary_directory: str | os.PathLike[str] | None = None
    tempfile_control_flags: int = 1 << int(TempfileControlFlag.ALLOW_IN_MEMORY_FILES)
    engine_host_code_allowed: bool = False

    def __init__(self, logger: ILogger) -> None:
        self._logger: ILogger = logger
        self._choice: DialectChoice = DialectChoice().look()

    logger = property(lambda self: self._logger)
    num_DLA_cores = property(lambda self: 0)

    def deserialize_cuda_engine(self, serialized_engine: Any) -> ICudaEngine | None:
        """Load the engine from these bytes (or from ``read`` of a stream reader).

        Returns:
            None, with an error in the log, where they are none.
        """
        data = _bytes_of(serialized_engine)
        if not data:
            self._report("IRuntime::deserializeCudaEngine: there are no bytes")
            return None
        try:
            with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                path = Path(folder) / "engine.intact"
                path.write_bytes(data)
                content = files.load(path)
            remake(BuildRecord.of(content.plan).plugins)
            self._choice = self._choice.look()
            return ICudaEngine(content.plan, content.packed, self._logger, self.max_threads, self._choice)
        except IntactError as error:
            self._report(f"IRuntime::deserializeCudaEngine: {error}", ErrorCodeTRT.FAILED_INITIALIZATION)
            return None

    def load_runtime(self, path: str | os.PathLike[str]) -> None:
        """Refuse: a lean runtime is a library for a GPU.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "load_runtime", os.fspath(path), "this runtime, which reads every plan of INTact",
            "read the engine with deserialize_cuda_engine",
        )  # fmt: skip

    def get_plugin_registry(self) -> IPluginRegistry:
        """Return the registry of plugins."""
        return get_plugin_registry()


def _bytes_of(source: Any) -> bytes:
    if source is None:
        return b""
    read = getattr(source, "read", None)
    if not callable(read):
        return bytes(source)
    parts = []
    while part := _read_piece(read):
        parts.append(bytes(part))
    return b"".join(parts)


def _read_piece(read: Any) -> Any:
    try:
        return read(1 << 20)
    except TypeError:  # IStreamReaderV2 has the stream as well
        return read(1 << 20, 0)
