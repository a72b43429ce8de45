"""Every argument that is a number of threads refuses a hundred thousand of them before one starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import intact
from intact import kernels
from intact.errors import QuantValueError
from intact.graph import Session
from intact.kernels.program import ThreadPool
from intact.spec import QuantSpec

X, MANY = np.ones((4, 4), np.float32), 100_000
COUNTS = np.zeros(8, np.int64)
MODEL = 'm <ir_version: 9, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'[2:]
CALLS: dict[str, Any] = {
    "absmax": lambda n: kernels.absmax(X, threads=n),
    "minmax": lambda n: kernels.minmax(X, threads=n),
    "collect_pow2": lambda n: kernels.collect_pow2(X, 0, COUNTS, COUNTS.copy(), threads=n),
    "quantize": lambda n: kernels.quantize(X, np.float32(1), np.int32(0), QuantSpec(), threads=n),
    "fake_quantize": lambda n: kernels.fake_quantize(X, np.float32(1), np.int32(0), QuantSpec(), threads=n),
    "a thread pool": ThreadPool,
    "a session": lambda n: Session(parser.parse_model(MODEL).SerializeToString(), threads=n),
    "an engine": lambda n: intact.compile(parser.parse_model(MODEL), threads=n),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_threads_have_a_limit(call: Any) -> None:
    call(2)
    with pytest.raises(QuantValueError, match="INTACT_LIMIT_THREADS=100000"):
        call(MANY)
