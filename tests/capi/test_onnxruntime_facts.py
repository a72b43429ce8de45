"""The facts of ONNX Runtime's interface, and what the provider says to versions that lack them."""

from __future__ import annotations

import ctypes as c
import re
from pathlib import Path

import onnxruntime
import pytest
from tests.capi.test_c_library_size import sum_loaded_bytes
from tests.capi.test_onnxruntime_provider import library_path
from tests.ort_header_facts import FACTS, LAYOUTS, TABLES, compare

MOST_BYTES = 100_000
"""60 kB by GCC 12."""

needs_provider = pytest.mark.skipif(library_path() is None, reason="libintact_onnxruntime is not built")
FACTS_TEXT = "\n".join(path.read_text(encoding="utf-8") for path in FACTS)

HEADERS = """
typedef enum OrtErrorCode {
  ORT_OK,
  ORT_FAIL,  // a fault
} OrtErrorCode;
struct OrtApi {
  /** \\brief Makes a status.
   */
  OrtStatus*(ORT_API_CALL* CreateStatus)(OrtErrorCode code, _In_ const char* msg)NO_EXCEPTION;
  ORT_CLASS_RELEASE(Status);
  /* \\since Version 1.17. */
  ORT_API2_STATUS(ParallelFor, _In_ const OrtKernelContext* context, _In_ void (*fn)(void*, size_t),
                  _In_reads_(total) const size_t* total);
};
struct OrtEpApi {
  ORT_API_T(const char*, Name, _In_opt_ const OrtEp* ep);
};
struct OrtNodeComputeInfo {
  uint32_t ort_version_supported;  ///< of the plug-in
  ORT_API2_STATUS(Compute, _In_ OrtNodeComputeInfo* this_ptr);
};
struct OrtEp {
  uint32_t ort_version_supported;
};
struct OrtEpFactory {
  uint32_t ort_version_supported;
};
"""
SMALL_FACTS = """
enum OrtErrorCode { ORT_FAIL = 1 };
#define INTACT_ORT_API(FUNCTION) \\
  FUNCTION(0, 1, OrtStatus*, CreateStatus, (OrtErrorCode, const char*)) \\
  FUNCTION(1, 1, void, ReleaseStatus, (OrtStatus*)) \\
  FUNCTION(2, 17, OrtStatus*, ParallelFor, (const OrtKernelContext*, void (*)(void*, size_t), const size_t*))
#define INTACT_ORT_EP_API(FUNCTION) \\
  FUNCTION(0, 22, const char*, Name, (const OrtEp*))
#define INTACT_ORT_NODE_COMPUTE_INFO(FIELD) \\
  FIELD(OrtStatus*, Compute, (OrtNodeComputeInfo*))
"""


def test_facts_of_the_headers_pass() -> None:
    assert compare(SMALL_FACTS, HEADERS) == []


@pytest.mark.parametrize(
    ("wrong", "difference"),
    [
        (("FUNCTION(1, 1, void", "FUNCTION(2, 1, void"), "OrtApi: 2 is ParallelFor, want ReleaseStatus"),
        (("const char*, Name, (const OrtEp*)", "char*, Name, (const OrtEp*)"), "OrtEpApi: Name is"),
        (("(2, 17,", "(2, 16,"), "ParallelFor is there since 1.17, not 1.16"),
        (("Compute, (OrtNodeComputeInfo*)", "Compute, (OrtEp*)"), "OrtNodeComputeInfo: Compute"),
        (("ORT_FAIL = 1", "ORT_FAIL = 2"), "OrtErrorCode: ORT_FAIL is 2 here, 1 there"),
        (("const size_t*))", "size_t*))"), "OrtApi: ParallelFor is"),
    ],
)
def test_a_wrong_fact_is_named(wrong: tuple[str, str], difference: str) -> None:
    assert wrong[0] in SMALL_FACTS
    (sentence,) = compare(SMALL_FACTS.replace(*wrong), HEADERS)
    assert difference in sentence


def test_every_list_of_facts_is_read() -> None:
    """Headers without tables differ in each: no macro was renamed behind the tool's back."""
    differences = "\n".join(compare(FACTS_TEXT, ""))
    assert all(f"{table}: " in differences for table in [*TABLES.values(), *LAYOUTS.values()])
    (lowest,) = re.findall(r"kApiVersion = (\d+)", FACTS_TEXT)
    versions = [int(version) for version in re.findall(r"FUNCTION\(\d+, (\d+)", FACTS_TEXT)]
    assert len(versions) > 40 and max(versions) == int(lowest)


Callback = c.CFUNCTYPE(c.c_void_p, c.c_uint32)


@needs_provider
def test_an_older_runtime_gets_a_status_and_nothing_else() -> None:
    """Before 1.23, ONNX Runtime has other tables, and passes CreateEpFactories one argument less."""
    messages = []
    make_status = c.CFUNCTYPE(c.c_void_p, c.c_int, c.c_char_p)(
        lambda code, text: messages.append((code, text.decode())) or 7
    )
    table = (c.c_void_p * 1)(c.cast(make_status, c.c_void_p).value)
    get_api = Callback(lambda version: c.addressof(table) if version < 23 else None)
    version = c.create_string_buffer(b"1.22.1")
    get_version = c.CFUNCTYPE(c.c_void_p)(lambda: c.addressof(version))
    base = (c.c_void_p * 2)(*(c.cast(function, c.c_void_p).value for function in (get_api, get_version)))
    library = c.CDLL(str(library_path()))
    library.CreateEpFactories.restype = c.c_void_p
    assert library.CreateEpFactories(b"intact", base, None, None, 4, None) == 7
    ((code, text),) = messages
    assert code == 9 and "1.23 or later, got 1.22.1: update onnxruntime" in text


@needs_provider
def test_the_runtime_of_this_environment_has_all_functions() -> None:
    (lowest,) = re.findall(r"kApiVersion = (\d+)", FACTS_TEXT)
    assert int(onnxruntime.__version__.split(".")[1]) >= int(lowest)


@needs_provider
def test_the_provider_is_small() -> None:
    data = Path(str(library_path())).read_bytes()
    if data[:4] != b"\x7fELF" or b"__asan_init" in data:
        pytest.skip("another system, or a build with sanitizers")
    assert sum_loaded_bytes(data) <= MOST_BYTES
