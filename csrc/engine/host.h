// The program around the engine, where it hands over a plan in memory, as Python's engine does: it holds the
// arrays, runs the parts that no kernel runs, and chooses among the forms of a layer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/bytes.h"
#include "engine/tensor.h"

namespace intact::engine {

class PlanStep;
class Sizes;

class Host {
 public:
  virtual ~Host() = default;

  // A constant, compared with its checksum if it has one.
  virtual Bytes constant(const std::string& name) = 0;
  // The same for a short while: nobody but what is packed of it needs it later.
  virtual Bytes constant_to_pack(const std::string& name) = 0;
  virtual uint32_t checksum(const std::string& name) = 0;
  // A constant in the form of a kernel; nothing where nobody has packed it yet.
  virtual std::optional<Bytes> packed(const std::string& constant, const std::string& form) = 0;
  // Takes over what was packed, elements of a type.
  virtual Bytes keep_packed(const std::string& constant, const std::string& form, Type type,
                            std::vector<uint8_t> bytes) = 0;

  // Sizes of what a part makes, in the order of its `writes`, where the plan does not say them.
  virtual std::vector<Shape> part_shapes(const PlanStep& part, const Sizes& sizes) = 0;
  // Whether layers have to say what they are called.
  virtual bool asks_for_layers() = 0;
  // The place of the form of a layer that runs. `standard`: that of the default.
  virtual size_t choose_form(const std::string& layer, std::span<const char* const> forms,
                             size_t standard) = 0;
  // The native step that is made next is in the form that was chosen last.
  virtual void note_form(size_t native_step) = 0;
};

}  // namespace intact::engine
