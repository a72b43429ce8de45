"""IBuilderConfig and optimization profiles: what a script asks of the builder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from intact.errors import FileFormatError, QuantValueError
from intact.trt.calibrators import IInt8Calibrator
from intact.trt.enums import BuilderFlag, MemoryPoolType, ProfilingVerbosity, QuantizationFlag
from intact.trt.layers import ILayer
from intact.trt.tensors import Dims

DEFAULT_WORKSPACE = 1 << 30


@dataclass
class IOptimizationProfile:
    """Smallest, usual and largest shape of each dynamic input; the engine takes shapes in between.

    Attributes:
        shapes: By input: (min, opt, max).
    """

    shapes: dict[str, tuple[Dims, Dims, Dims]] = field(default_factory=dict)

    def set_shape(self, input: str, min: Dims, opt: Dims, max: Dims) -> None:
        """Fix the three shapes of an input."""
        found = tuple(min), tuple(opt), tuple(max)
        if not len(found[0]) == len(found[1]) == len(found[2]):
            raise QuantValueError(
                f"profile of '{input}'", f"{found}", "three shapes of one rank", "correct them"
            )
        self.shapes[input] = found

    def get_shape(self, input: str) -> list[Dims]:
        """The three shapes of an input; empty where none were set."""
        return list(self.shapes.get(input, ()))

    def __bool__(self) -> bool:
        return True


class ITimingCache:
    """What the builder measured: seconds of each layer in each precision, on one kind of machine."""

    def __init__(self, times: dict[str, float] | None = None) -> None:
        self.times = dict(times or {})

    @classmethod
    def parse(cls, data: bytes) -> ITimingCache:
        """A cache from its bytes; empty bytes are an empty cache.

        Raises:
            FileFormatError: They are no timing cache.
        """
        if not bytes(data):
            return cls()
        try:
            content = json.loads(bytes(data).decode())
            times = {str(k): float(v) for k, v in content["times"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(
                "timing cache", f"{error}", "what ITimingCache.serialize wrote", "leave the cache out"
            ) from error
        return cls(times)

    def serialize(self) -> bytes:
        """Its bytes: the same for the same times."""
        return json.dumps({"format": "intact-timing", "times": self.times}, sort_keys=True).encode()

    def combine(self, other: ITimingCache, ignore_mismatch: bool = False) -> bool:
        """Take over what `other` has and this one has not."""
        self.times = {**other.times, **self.times}
        return True

    def reset(self) -> bool:
        """Forget everything."""
        self.times.clear()
        return True


class IBuilderConfig:
    """Settings of a build; get one from ``Builder.create_builder_config``.

    Attributes:
        flags: Bits of `BuilderFlag`.
        int8_calibrator: Gives ranges for implicit quantization.
        profiling_verbosity, builder_optimization_level: Kept; nothing here depends on them.
        default_device_type, avg_timing_iterations: Kept; nothing here depends on them.
        engine_capability, max_aux_streams: Kept; nothing here depends on them.
    """

    def __init__(self) -> None:
        self.flags = 0
        self.int8_calibrator: IInt8Calibrator | None = None
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.builder_optimization_level = 3
        self.avg_timing_iterations = 1
        self.max_aux_streams = 0
        self.default_device_type: Any = None
        self.engine_capability: Any = None
        self.quantization_flags = 0
        self._pools = {MemoryPoolType.WORKSPACE: DEFAULT_WORKSPACE}
        self._profiles: list[IOptimizationProfile] = []
        self._calibration_profile: IOptimizationProfile | None = None
        self._timing_cache: ITimingCache | None = None

    def set_flag(self, flag: BuilderFlag) -> None:
        """Turn a flag on."""
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: BuilderFlag) -> None:
        """Turn a flag off."""
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: BuilderFlag) -> bool:
        """Whether a flag is on."""
        return bool(self.flags >> int(flag) & 1)

    def set_quantization_flag(self, flag: QuantizationFlag) -> None:
        """Accepted: calibration here always sees tensors as the file has them."""
        self.quantization_flags |= 1 << int(flag)

    def clear_quantization_flag(self, flag: QuantizationFlag) -> None:
        """Turn a quantization flag off."""
        self.quantization_flags &= ~(1 << int(flag))

    def get_quantization_flag(self, flag: QuantizationFlag) -> bool:
        """Whether a quantization flag is on."""
        return bool(self.quantization_flags >> int(flag) & 1)

    @property
    def max_workspace_size(self) -> int:
        """Kept; the engine takes what its arena needs."""
        return self._pools[MemoryPoolType.WORKSPACE]

    @max_workspace_size.setter
    def max_workspace_size(self, size: int) -> None:
        self._pools[MemoryPoolType.WORKSPACE] = int(size)

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        """Kept; the engine takes what its arena needs."""
        self._pools[pool] = int(pool_size)

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        """What `set_memory_pool_limit` was given."""
        return self._pools.get(pool, 0)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        """Allow the shapes of `profile`; its number."""
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self) -> int:
        """Number of profiles."""
        return len(self._profiles)

    @property
    def profiles(self) -> tuple[IOptimizationProfile, ...]:
        """The profiles, in order."""
        return tuple(self._profiles)

    def set_calibration_profile(self, profile: IOptimizationProfile) -> bool:
        """Shapes of calibration batches; batches here say their own shapes."""
        self._calibration_profile = profile
        return True

    def get_calibration_profile(self) -> IOptimizationProfile | None:
        """What `set_calibration_profile` was given."""
        return self._calibration_profile

    def create_timing_cache(self, serialized: bytes) -> ITimingCache:
        """A timing cache from its bytes; ``b""`` is an empty one."""
        return ITimingCache.parse(serialized)

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool = False) -> bool:
        """Times that the builder takes instead of measuring, and adds to."""
        self._timing_cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache | None:
        """The times known; what a build measured is in it."""
        return self._timing_cache

    def can_run_on_DLA(self, layer: ILayer) -> bool:
        """No: there is none."""
        return False
