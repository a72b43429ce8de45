"""IBuilderConfig and optimization profiles: what a script asks of the builder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from intact.errors import FileFormatError, QuantValueError
from intact.timings import Timings
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import (
    BuilderFlag,
    DeviceType,
    EngineCapability,
    HardwareCompatibilityLevel,
    MemoryPoolType,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
    RuntimePlatform,
    TacticSource,
    TilingOptimizationLevel,
    TrtEnum,
    bits_of_10,
    bits_of_dialect,
    member_of,
)
from intact.trt.base.host_interfaces import IHostMemory, ILogger, LogSeverity
from intact.trt.base.itensor import Sizes
from intact.trt.base.removed_members import hide_removed
from intact.trt.base.trt_object import Interface
from intact.trt.building.calibrators import IInt8Calibrator
from intact.trt.layers import ILayer

DEFAULT_POOLS = {
    MemoryPoolType.WORKSPACE: 1 << 30, MemoryPoolType.TACTIC_SHARED_MEMORY: 1 << 30,
    MemoryPoolType.DLA_LOCAL_DRAM: 1 << 30, MemoryPoolType.DLA_GLOBAL_DRAM: 1 << 29,
}  # fmt: skip
"""Limits of pools that nobody set, as TensorRT's header says them."""


@dataclass
class IOptimizationProfile:
    """Smallest, usual and largest shape of each dynamic input; the engine takes shapes in between.

    Attributes:
        shapes: By input: (min, opt, max).
        values: By input that holds sizes: (min, opt, max) of its values.
        extra_memory_target: Kept.
    """

    shapes: dict[str, tuple[Sizes, Sizes, Sizes]] = field(default_factory=dict)
    values: dict[str, tuple[Sizes, Sizes, Sizes]] = field(default_factory=dict)
    extra_memory_target: float = 1.0

    def set_shape_input(self, input: str, min: Sizes, opt: Sizes, max: Sizes) -> None:
        """Fix the smallest, usual and largest values of an input that holds sizes."""
        self.values[input] = tuple(map(int, min)), tuple(map(int, opt)), tuple(map(int, max))

    def get_shape_input(self, input: str) -> list[Sizes]:
        """Return the values of an input that holds sizes; empty where none were set."""
        return list(self.values.get(input, ()))

    def set_shape(self, input: str, min: Sizes, opt: Sizes, max: Sizes) -> None:
        """Fix the three shapes of an input.

        Args:
            input: Its name.
            min, opt, max: The smallest, usual and largest sizes, of one rank.
        Raises:
            QuantValueError: Ranks differ, or the sizes do not ascend.
        """
        limits = tuple(map(int, min)), tuple(map(int, opt)), tuple(map(int, max))
        if not len(limits[0]) == len(limits[1]) == len(limits[2]):
            raise QuantValueError(
                f"profile of '{input}'", f"{limits}", "three shapes of one rank", "correct them"
            )
        self.shapes[input] = limits

    def get_shape(self, input: str) -> list[Sizes]:
        """Return the three shapes of an input; empty where none were set."""
        return list(self.shapes.get(input, ()))

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class TimingCacheKey:
    """Key of a timing cache: what was measured, and the kind of machine."""

    machine: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TimingCacheKey:
        """Parse the text of a key."""
        machine, _, name = text.partition("\t")
        return cls(machine, name)

    def __str__(self) -> str:
        return f"{self.machine}\t{self.name}"


@dataclass
class TimingCacheValue:
    """A time in milliseconds; tactics are not told apart here."""

    tacticHash: int = 0
    timingMSec: float = 0.0


class ITimingCache:
    """Times that the builder measured: seconds of each layer in each precision, by the kind of machine.

    Attributes:
        timings: The same record as `intact build --timing-cache` has.
    """

    def __init__(self, timings: Timings | None = None) -> None:
        self.timings = Timings() if timings is None else timings

    @classmethod
    def parse(cls, data: bytes) -> ITimingCache:
        """Parse the bytes of a cache; empty bytes are an empty cache.

        Raises:
            FileFormatError: They are no timing cache.
        """
        if not bytes(data):
            return cls()
        return cls(Timings.parse(bytes(data), "timing cache"))

    def serialize(self) -> IHostMemory:
        """Serialize the cache: equal times give equal bytes."""
        return IHostMemory(self.timings.serialize())

    def queryKeys(self) -> list[TimingCacheKey]:
        """Return the keys of all times."""
        return [TimingCacheKey(m, name) for m, times in self.timings.machines.items() for name in times]

    def query(self, key: TimingCacheKey) -> TimingCacheValue:
        """Return the time of a key; 0 where it is not known."""
        seconds = self.timings.machines.get(key.machine, {}).get(key.name, 0.0)
        return TimingCacheValue(0, seconds * 1e3)

    def update(self, key: TimingCacheKey, value: TimingCacheValue) -> bool:
        """Set the time of a key."""
        self.timings.of(key.machine)[key.name] = value.timingMSec / 1e3
        return True

    def combine(self, other: ITimingCache, ignore_mismatch: bool = False) -> bool:
        """Add the entries of `other` that this cache lacks."""
        self.timings.add(other.timings)
        return True

    def reset(self) -> bool:
        """Forget everything."""
        self.timings.machines.clear()
        return True


class IBuilderConfig(Interface):
    """Settings of a build; get one from ``Builder.create_builder_config``.

    Attributes:
        flags: Bits of `BuilderFlag`.
        int8_calibrator: Gives ranges for implicit quantization.
        progress_monitor: Is told of the phases of a build, and may stop it.
    """

    int8_calibrator: IInt8Calibrator | None = None
    progress_monitor: Any = None
    profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
    builder_optimization_level: int = 3
    avg_timing_iterations: int = 1
    min_timing_iterations: int = 1
    max_aux_streams: int = 0
    max_num_tactics: int = -1
    num_devices: int = 1
    profile_stream: int = 0
    default_device_type = DeviceType.GPU
    engine_capability = EngineCapability.STANDARD
    hardware_compatibility_level = HardwareCompatibilityLevel.NONE
    runtime_platform = RuntimePlatform.SAME_AS_BUILD
    tiling_optimization_level = TilingOptimizationLevel.NONE
    l2_limit_for_tiling: int = -1
    algorithm_selector: Any = None
    plugins_to_serialize: Any = ()
    build_route: str = ""
    remote_auto_tuning_config: str = ""
    all_build_routes = property(lambda self: "")

    def __init__(self, logger: ILogger | None = None, choice: DialectChoice | None = None) -> None:
        self._logger = logger
        self._choice: DialectChoice = choice if choice is not None else DialectChoice().look()
        self._flags = self._quantization_flags = 0
        self._tactics = 0b11111 if self._choice.dialect == "8.x" else 0b11000
        self._previews = 0 if self._choice.dialect == "8.x" else 1 << int(PreviewFeature.PROFILE_SHARING_0806)
        self._pools = dict(DEFAULT_POOLS)
        self._profiles: list[IOptimizationProfile] = []
        self._calibration_profile: IOptimizationProfile | None = None
        self._timing_cache: ITimingCache | None = None
        self._devices: dict[ILayer, DeviceType] = {}

    @property
    def DLA_core(self) -> int:
        """The core of a DLA; -1, because there is none, whatever is set."""
        return -1

    @DLA_core.setter
    def DLA_core(self, core: int) -> None: ...

    @property
    def flags(self) -> int:
        """The flags that are on, as bits."""
        return bits_of_dialect(BuilderFlag, self._flags, self._choice.dialect)

    @flags.setter
    def flags(self, flags: int) -> None:
        self._flags = bits_of_10(BuilderFlag, int(flags), self._choice.dialect)

    def _bit(self, kind: type[TrtEnum], member: Any) -> int:
        return 1 << int(member_of(kind, member, self._choice.dialect))

    def set_flag(self, flag: BuilderFlag) -> None:
        """Turn a flag on."""
        self._flags |= self._bit(BuilderFlag, flag)

    def clear_flag(self, flag: BuilderFlag) -> None:
        """Turn a flag off."""
        self._flags &= ~self._bit(BuilderFlag, flag)

    def get_flag(self, flag: BuilderFlag) -> bool:
        """Return whether a flag is on."""
        return bool(self._flags & self._bit(BuilderFlag, flag))

    def set_quantization_flag(self, flag: QuantizationFlag) -> None:
        """Accept a flag: calibration here always sees tensors as the file has them."""
        self._note("set_quantization_flag")
        self._quantization_flags |= 1 << int(flag)

    def clear_quantization_flag(self, flag: QuantizationFlag) -> None:
        """Turn a quantization flag off."""
        self._quantization_flags &= ~(1 << int(flag))

    def get_quantization_flag(self, flag: QuantizationFlag) -> bool:
        """Return whether a quantization flag is on."""
        return bool(self._quantization_flags >> int(flag) & 1)

    @property
    def max_workspace_size(self) -> int:
        """Kept; the engine takes what its arena needs."""
        return self._pools[MemoryPoolType.WORKSPACE]

    @max_workspace_size.setter
    def max_workspace_size(self, size: int) -> None:
        self._pools[MemoryPoolType.WORKSPACE] = int(size)

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        """Set a limit, which is only stored: the engine takes what its arena needs."""
        self._note("set_memory_pool_limit")
        self._pools[pool] = int(pool_size)

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        """Return the limit set by `set_memory_pool_limit`."""
        return self._pools.get(pool, 0)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        """Allow the shapes of `profile`; return its number."""
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self) -> int:
        """Number of profiles."""
        return len(self._profiles)

    def fixed_values(self) -> dict[str, Sizes]:
        """Map each input that holds sizes to its numbers; those that differ between profiles are -1."""
        names = {name for profile in self._profiles for name in profile.values}
        fixed = {}
        for name in names:
            triples = [profile.values[name] for profile in self._profiles if name in profile.values]
            columns = zip(*(sizes for limits in triples for sizes in limits), strict=True)
            fixed[name] = tuple(c[0] if len(set(c)) == 1 else -1 for c in columns)
        return fixed

    @property
    def profiles(self) -> tuple[IOptimizationProfile, ...]:
        """The profiles, in order."""
        return tuple(self._profiles)

    def set_calibration_profile(self, profile: IOptimizationProfile) -> bool:
        """Set the shapes of calibration batches; batches here say their own shapes."""
        self._calibration_profile = profile
        return True

    def get_calibration_profile(self) -> IOptimizationProfile | None:
        """Return the profile set by `set_calibration_profile`."""
        return self._calibration_profile

    def create_timing_cache(self, serialized: bytes) -> ITimingCache | None:
        """Create a timing cache from its bytes; ``b""`` makes an empty one.

        Returns:
            The cache; None, with an error in the log, where the bytes are no cache of INTact's.
        """
        try:
            return ITimingCache.parse(serialized)
        except FileFormatError as error:
            if self._logger is not None:
                self._logger.log(LogSeverity.ERROR, f"createTimingCache: {error}")
            return None

    def set_timing_cache(self, cache: ITimingCache | None, ignore_mismatch: bool = False) -> bool:
        """Set the times that the builder takes instead of measuring, and adds to; False for None."""
        self._timing_cache = cache
        return cache is not None

    def get_timing_cache(self) -> ITimingCache | None:
        """Return the timing cache, to which a build adds what it measures."""
        return self._timing_cache

    def set_tactic_sources(self, tactic_sources: int) -> bool:
        """Set sources, which are only stored: kernels are INTact's own."""
        self._note("set_tactic_sources")
        self._tactics = bits_of_10(TacticSource, int(tactic_sources), self._choice.dialect)
        return True

    def get_tactic_sources(self) -> int:
        """Return the sources set by `set_tactic_sources`."""
        return bits_of_dialect(TacticSource, self._tactics, self._choice.dialect)

    def set_preview_feature(self, feature: PreviewFeature, enable: bool) -> None:
        """Set a feature, which is only stored: there are no previews."""
        self._note("set_preview_feature")
        bit = self._bit(PreviewFeature, feature)
        self._previews = self._previews & ~bit | (bit if enable else 0)

    def get_preview_feature(self, feature: PreviewFeature) -> bool:
        """Return the value set by `set_preview_feature`."""
        return bool(self._previews & self._bit(PreviewFeature, feature))

    def set_device_type(self, layer: ILayer, device_type: DeviceType) -> None:
        """Set a device, which is only stored: there is one, the CPU."""
        self._note("set_device_type")
        self._devices[layer] = DeviceType(device_type)

    def get_device_type(self, layer: ILayer) -> DeviceType:
        """Return the device set by `set_device_type`."""
        return self._devices.get(layer, self.default_device_type)

    def is_device_type_set(self, layer: ILayer) -> bool:
        """Return whether `set_device_type` was called for `layer`."""
        return layer in self._devices

    def reset_device_type(self, layer: ILayer) -> None:
        """Forget `set_device_type`."""
        self._devices.pop(layer, None)

    def reset(self) -> None:
        """Reset all settings."""
        logger, choice = self._logger, self._choice
        self.__dict__.clear()
        self.__init__(logger, choice)  # type: ignore[misc]

    def can_run_on_DLA(self, layer: ILayer) -> bool:
        """Return False: there is no DLA."""
        return False


hide_removed(IBuilderConfig)
