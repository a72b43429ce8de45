// Errors between C++ and ONNX Runtime: inside they are exceptions, and none leaves an exported function.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "intact.h"
#include "onnxruntime/ort_api.h"

namespace intact::ort {

// An error of ours, and the code that it has in ONNX Runtime.
struct Failure {
  OrtErrorCode code;
  std::string text;
};

[[noreturn]] inline void fail(OrtErrorCode code, std::string text) { throw Failure{code, std::move(text)}; }

// Where the C library writes its text.
struct ErrorText : intact_error {
  ErrorText() : intact_error{} { size = sizeof(intact_error); }
};

// A status of ONNX Runtime's own, which is passed on.
struct Passed {
  OrtStatus* status;
};

// Throws the status of a call of ONNX Runtime, if it is one.
inline void require(OrtStatus* status) {
  if (status != nullptr) throw Passed{status};
}

// Throws the error of a call of the C library, if it is one.
inline void require(intact_status status, const intact_error& error) {
  switch (status) {
    case INTACT_OK:
      return;
    case INTACT_BAD_ARGUMENT:
    case INTACT_BAD_SHAPE:
    case INTACT_BAD_INDEX:
      fail(ORT_INVALID_ARGUMENT, error.text);
    case INTACT_NO_FILE:
      fail(ORT_NO_SUCHFILE, error.text);
    case INTACT_BAD_FILE:
      fail(ORT_INVALID_GRAPH, error.text);
    case INTACT_UNSUPPORTED:
      fail(ORT_NOT_IMPLEMENTED, error.text);
    default:
      fail(ORT_EP_FAIL, error.text);
  }
}

// Runs the body of an exported function. Returns null, or the status of what it threw.
template <class Body>
OrtStatus* guarded(const Api& api, const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Passed& passed) {
    return passed.status;
  } catch (const Failure& failure) {
    return api.CreateStatus(failure.code, ("INTact: " + failure.text).c_str());
  } catch (const std::bad_alloc&) {
    return api.CreateStatus(ORT_FAIL, "INTact: there is not enough memory");
  } catch (const std::exception& other) {
    return api.CreateStatus(ORT_EP_FAIL, other.what());
  } catch (...) {
    return api.CreateStatus(ORT_EP_FAIL, "INTact: an unknown fault");
  }
}

}  // namespace intact::ort
