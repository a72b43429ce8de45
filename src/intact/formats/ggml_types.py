"""The types of tensors in GGUF files: names, numbers and sizes of their blocks.

Q8_1 and Q8_K are missing: no file has them, programs quantize activations to them.

Source: ggml.h, `enum ggml_type`; ggml-common.h, the structs `block_*`.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class GgmlType:
    """Describes one type.

    Attributes:
        name: As in llama.cpp: "Q4_K".
        number: What files store.
        block_size: Elements of one block, along the last axis.
        nbytes: Bytes of one block.
        dtype: Of plain numbers; None for blocks.
    """

    name: str
    number: int
    block_size: int
    nbytes: int
    dtype: np.dtype | None = None

    @classmethod
    def plain(cls, name: str, number: int, dtype: type | str) -> GgmlType:
        """Return the type of tensors that hold numbers as they are."""
        number_dtype = np.dtype(dtype)
        return cls(name, number, 1, number_dtype.itemsize, number_dtype)


_ALL = (
    GgmlType.plain("F32", 0, "<f4"),
    GgmlType.plain("F16", 1, "<f2"),
    GgmlType("Q4_0", 2, 32, 18),
    GgmlType("Q4_1", 3, 32, 20),
    GgmlType("Q5_0", 6, 32, 22),
    GgmlType("Q5_1", 7, 32, 24),
    GgmlType("Q8_0", 8, 32, 34),
    GgmlType("Q2_K", 10, 256, 84),
    GgmlType("Q3_K", 11, 256, 110),
    GgmlType("Q4_K", 12, 256, 144),
    GgmlType("Q5_K", 13, 256, 176),
    GgmlType("Q6_K", 14, 256, 210),
    GgmlType("IQ2_XXS", 16, 256, 66),
    GgmlType("IQ2_XS", 17, 256, 74),
    GgmlType("IQ3_XXS", 18, 256, 98),
    GgmlType("IQ1_S", 19, 256, 50),
    GgmlType("IQ4_NL", 20, 32, 18),
    GgmlType("IQ3_S", 21, 256, 110),
    GgmlType("IQ2_S", 22, 256, 82),
    GgmlType("IQ4_XS", 23, 256, 136),
    GgmlType.plain("I8", 24, "i1"),
    GgmlType.plain("I16", 25, "<i2"),
    GgmlType.plain("I32", 26, "<i4"),
    GgmlType.plain("I64", 27, "<i8"),
    GgmlType.plain("F64", 28, "<f8"),
    GgmlType("IQ1_M", 29, 256, 56),
    GgmlType.plain("BF16", 30, ml_dtypes.bfloat16),
    GgmlType("TQ1_0", 34, 256, 54),
    GgmlType("TQ2_0", 35, 256, 66),
    GgmlType("MXFP4", 39, 32, 17),
    GgmlType("NVFP4", 40, 64, 36),
    GgmlType("Q1_0", 41, 128, 18),
)
GGML_TYPES = {kind.name: kind for kind in _ALL}
"""Every type whose sizes are known, by name."""
TYPE_OF_NUMBER = {kind.number: kind for kind in _ALL}
"""The same, by the number in the file."""
