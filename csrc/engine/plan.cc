#include "engine/plan.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/type_names.h"
#include "engine/checker.h"
#include "engine/failure.h"
#include "engine/fields.h"
#include "engine/fuse.h"
#include "engine/kinds.h"
#include "engine/part.h"
#include "engine/sizes.h"

namespace intact::engine {
namespace {

constexpr int64_t kVersion = 7;
constexpr const char* kOrder = std::endian::native == std::endian::little ? "little" : "big";

Codes read_codes(Fields fields) {
  Codes found;
  found.scale = fields.real("scale");
  const int64_t zero = fields.integer("zero_point");
  found.is_signed = fields.truth("signed");
  const int64_t low = fields.integer("low"), high = fields.integer("high");
  fields.finish();
  const int64_t least = found.format_low(), most = found.format_high();
  const bool sound = least <= low && low <= high && high <= most && least <= zero && zero <= most &&
                     found.scale > 0 && std::isfinite(found.scale32()) && found.scale32() > 0;
  if (!sound) fail_file(fields.where(), "another grid", "a grid of one byte that holds its zero point");
  found.zero_point = static_cast<int>(zero);
  found.low = static_cast<int>(low);
  found.high = static_cast<int>(high);
  return found;
}

// Reads the JSON of a file into a plan.
class Reader {
 public:
  Reader(Plan& plan, const Container& container, const Json& root, const std::string& where,
         Host* host = nullptr)
      : plan_(plan),
        container_(container),
        where_(where),
        host_(host),
        names_{{}, plan.dims},
        body_(root, where, &names_) {}

  void read() {
    check_version();
    body_.text("tool");
    const std::vector<std::string> inputs = body_.texts("inputs"), outputs = body_.texts("outputs");
    read_tensors();
    body_.list("layers");
    body_.texts("notes");
    const std::string model = body_.text("model");
    body_.texts("deciding");
    read_constants(body_.list("constants"));
    const Json &stored = body_.list("stored"), &panels = body_.list("panels");
    const Json &joined = body_.list("joined"), &packed = body_.list("packed");
    body_.list("timings");
    read_steps(body_.list("steps"));
    const bool has_selftest = body_.has("selftest");
    if (has_selftest) plan_.selftest = read_selftest(body_.record("selftest"));
    body_.finish();
    if (!model.empty()) {
      throw Failure(INTACT_UNSUPPORTED,
                    where_ + ": got a plan that is lowered again for each set of input sizes, want " +
                        "one for all of them: build it for fixed sizes");
    }
    if (!joined.items.empty()) fail_file(where_, "models in pieces that no step names", "none");
    read_stored(stored);
    read_panels(panels);
    if (host_ == nullptr) find_arrays(packed);
    plan_.inputs = ports(inputs, "the inputs");
    plan_.outputs = ports(outputs, "the outputs");
    if (has_selftest) check_selftest(plan_, where_);
  }

 private:
  void check_version() {
    const Json &version = body_.item("version"), &order = body_.item("byte_order");
    if (!version.is(Json::Kind::integer) || version.integer != kVersion) {
      fail_file(where_, "a plan of version " + text_of(version), std::to_string(kVersion));
    }
    if (order.text != kOrder) fail_file(where_, "a plan of byte order " + text_of(order), kOrder);
  }

  void add_name(const std::string& name, size_t number) {
    if (name.empty() || !names_.numbers.emplace(name, static_cast<int>(number)).second) {
      fail_file(where_, "'" + name + "' twice", "names that are given once");
    }
  }

  void read_tensors() {
    for (const Json& entry : body_.list("tensors").items) {
      Fields fields(entry, where_ + ".tensors[" + std::to_string(plan_.tensors.size()) + "]", &names_);
      TensorRecord tensor;
      tensor.name = fields.text("name");
      const std::string dtype = fields.text("dtype");
      for (const Json& dim : fields.list("shape").items) {
        tensor.shape.push_back(fields.dim(dim));
        if (tensor.shape.back().value < 0) fail_file(fields.where(), text_of(dim), "sizes of 0 or more");
      }
      const Json& codes = fields.item("codes");
      if (!codes.is(Json::Kind::null)) tensor.codes = read_codes({codes, fields.where() + ".codes"});
      fields.finish();
      if ((dtype == "codes") != tensor.codes.has_value())
        fail_file(fields.where(), dtype, "codes with a grid");
      tensor.is_string = dtype == "string";
      const bool has_numbers = !tensor.codes && !tensor.is_string;
      const auto type = find_type(dtype);
      if (has_numbers && !type) fail_file(fields.where(), dtype, "a dtype");
      tensor.type = has_numbers ? *type : Type::u8;
      add_name(tensor.name, plan_.tensors.size());
      plan_.tensors.push_back(std::move(tensor));
    }
  }

  void read_constants(const Json& list) {
    for (const Json& entry : list.items) {
      Fields fields(entry, where_ + ".constants[" + std::to_string(plan_.constants.size()) + "]");
      ConstantRecord constant;
      constant.name = fields.text("name");
      const std::string dtype = fields.text("dtype");
      const auto type = find_type(dtype);
      if (!type) fail_file(fields.where(), dtype, "a dtype");
      constant.type = *type;
      constant.shape = shape_of(fields.integers("shape"), fields.where());
      constant.crc32 = checksum(fields);
      fields.finish();
      add_name(constant.name, plan_.tensors.size() + plan_.constants.size());
      plan_.constants.push_back(std::move(constant));
    }
  }

  static uint32_t checksum(Fields& fields) {
    const int64_t sum = fields.integer("crc32");
    if (sum < 0 || sum > 0xffffffff) fail_file(fields.where(), std::to_string(sum), "a CRC-32");
    return static_cast<uint32_t>(sum);
  }

  static Shape shape_of(const std::vector<int64_t>& sizes, const std::string& where) {
    Shape found;
    if (sizes.size() > kMostAxes) {
      throw Failure(INTACT_UNSUPPORTED,
                    where + ": got a constant of more than " + std::to_string(kMostAxes) + " axes");
    }
    for (const int64_t n : sizes) {
      if (n < 0) fail_file(where, std::to_string(n), "sizes of 0 or more");
      found.push(n);
    }
    return found;
  }

  void read_steps(const Json& list) {
    std::string foreign;
    for (size_t i = 0; i < list.items.size(); ++i) {
      const Json& entry = list.items[i];
      Fields fields(entry, where_ + ".steps[" + std::to_string(i) + "]", &names_);
      const std::string kind = fields.text("kind");
      std::unique_ptr<PlanStep> step;
      if (host_ != nullptr && kind == "part") {
        step = std::make_unique<Part>(fields, *host_);
      } else {
        if (!is_kind(kind)) fail_file(fields.where() + ".kind", kind, "a kind of step");
        step = read_step(kind, fields);
      }
      if (step == nullptr) {
        if (foreign.size() < 400)
          foreign += (foreign.empty() ? "" : ", ") + named_nodes(fields) + " (" + kind + ")";
        continue;
      }
      fields.finish();
      step->kind = kind;
      step->index = i;
      step->rules = &rules_of(kind);
      step->fields = fields.take_values();
      sort_names(*step, fields);
      plan_.steps.push_back(std::move(step));
    }
    if (!foreign.empty()) {
      throw Failure(INTACT_UNSUPPORTED, where_ + ": got parts that this library does not run: " + foreign);
    }
  }

  static std::string named_nodes(Fields& fields) {
    std::string found;
    for (const std::string& node : fields.texts("nodes")) found += (found.empty() ? "" : " ") + node;
    return found.empty() ? fields.text("name") : found.substr(0, 200);
  }

  // Puts the names of a step by their roles, and holds constants to what its fields declare.
  void sort_names(PlanStep& step, const Fields& fields) const {
    for (const Named& named : fields.named()) {
      const bool tensor = plan_.is_tensor(named.value);
      const bool fits = named.role == Role::operand || tensor == (named.role != Role::constant);
      if (!fits)
        fail_file(step.where(), "'" + plan_.name(named.value) + "'", tensor ? "a constant" : "a tensor");
      if (named.role == Role::constant) {
        const ConstantRecord& constant = plan_.constant(named.value);
        if (constant.type != named.type || constant.shape.rank != named.rank) {
          fail_file(step.where(),
                    "'" + constant.name + "' " + name_of(constant.type) + text_of(constant.shape),
                    std::string(name_of(named.type)) + " of rank " + std::to_string(named.rank));
        }
        step.constants.push_back(named.value);
      } else {
        (named.role == Role::write ? step.writes : step.reads).push_back(named.value);
      }
    }
  }

  // The bytes of an array of the file, which is then no one else's.
  std::span<const uint8_t> take_array(const std::string& name, size_t bytes) {
    const auto found = container_.arrays.find(name);
    const bool fits = found != container_.arrays.end() && bytes < (size_t{1} << 46) &&
                      found->second.size() == padded_in_file(bytes);
    if (!fits)
      fail_file(where_ + ": '" + name + "'", "other bytes", std::to_string(bytes) + " and their padding");
    if (!taken_.insert(name).second) fail_file(where_, "'" + name + "' twice", "arrays that are named once");
    return found->second.first(bytes);
  }

  ConstantRecord& constant_of(const std::string& name, const std::string& where) {
    const auto found = names_.numbers.find(name);
    if (found == names_.numbers.end() || plan_.is_tensor(found->second)) fail_file(where, name, "a constant");
    return plan_.constants[static_cast<size_t>(found->second) - plan_.tensors.size()];
  }

  void read_stored(const Json& list) {
    for (const Json& entry : list.items) {
      Fields fields(entry, where_ + ".stored", &names_);
      const std::string name = fields.text("constant");
      Stored stored = read_form(fields.record("form"));
      fields.finish();
      ConstantRecord& constant = constant_of(name, fields.where());
      if (constant.type != Type::f32 || constant.stored)
        fail_file(fields.where(), name, "a constant of float32");
      stored.check(fields.where(), elements(constant.shape));
      stored.codes = take_array("constant/" + name, stored.code_bytes());
      const auto count = static_cast<size_t>(stored.scale_count());
      if (!stored.scale_shape.empty()) {
        const auto bytes = take_array("scale/" + name, 4 * count);
        stored.scale = {reinterpret_cast<const float*>(bytes.data()), count};
      }
      if (stored.has_zero) {
        const auto bytes = take_array("zero/" + name, 2 * count);
        stored.zero = {reinterpret_cast<const int16_t*>(bytes.data()), count};
      }
      constant.stored = std::move(stored);
    }
  }

  void read_panels(const Json& list) {
    for (const Json& entry : list.items) {
      Fields fields(entry, where_ + ".panels", &names_);
      const std::string name = fields.text("constant");
      const Panels panels{fields.integer("inputs"), fields.integer("bits")};
      fields.finish();
      ConstantRecord& constant = constant_of(name, fields.where());
      if (constant.panels) fail_file(fields.where(), name, "names that are given once");
      panels.check(fields.where(), constant.type, constant.shape);
      constant.panels = panels;
    }
  }

  void find_arrays(const Json& packed) {
    for (ConstantRecord& constant : plan_.constants) {
      if (!constant.stored && !constant.panels)
        constant.bytes = take_array("constant/" + constant.name, constant.nbytes());
    }
    for (const Json& entry : packed.items) {
      Fields fields(entry, where_ + ".packed");
      const std::string constant = fields.text("constant"), kernel = fields.text("kernel");
      const std::string dtype = fields.text("dtype");
      const auto type = find_type(dtype);
      const std::vector<int64_t> sizes = fields.integers("shape");
      const uint32_t sum = checksum(fields);
      fields.finish();
      bool sound = type.has_value();
      for (const int64_t n : sizes) sound = sound && n >= 0;
      if (!sound) fail_file(fields.where(), dtype, "a dtype and sizes");
      const auto count = static_cast<size_t>(product(sizes));
      const auto bytes =
          take_array("packed/" + kernel + "/" + constant, std::min(count, size_t{1} << 50) * bytes_of(*type));
      if (!plan_.arrays.add_packed(constant, kernel, bytes, sum))
        fail_file(fields.where(), kernel, "distinct names");
    }
    for (const ConstantRecord& constant : plan_.constants) {
      if (constant.panels && !plan_.arrays.is_packed(constant, constant.panels->form()))
        fail_file(where_ + ".panels", constant.name, "a constant that is packed so");
    }
    if (taken_.size() != container_.arrays.size()) fail_file(where_, "arrays of no constant", "none");
  }

  std::vector<int> ports(const std::vector<std::string>& given, const char* where) const {
    std::vector<int> found;
    for (const std::string& name : given) {
      const auto value = names_.numbers.find(name);
      if (value == names_.numbers.end() || !plan_.is_tensor(value->second))
        fail_file(where, "'" + name + "'", "tensors");
      if (std::find(found.begin(), found.end(), value->second) != found.end()) {
        fail_file(where, "a name twice", "distinct names");
      }
      found.push_back(value->second);
    }
    return found;
  }

  Plan& plan_;
  const Container& container_;
  const std::string& where_;
  Host* const host_;
  ValueNames names_;
  Fields body_;
  std::set<std::string> taken_;
};

// Refuses a plan that contradicts itself: every tensor is given once before it is used.
void check_order(const Plan& plan) {
  std::vector<bool> defined(plan.tensors.size());
  for (const int input : plan.inputs) defined[static_cast<size_t>(input)] = true;
  for (const auto& step : plan.steps) {
    for (const int value : step->reads) {
      if (plan.is_tensor(value) && !defined[static_cast<size_t>(value)]) {
        fail_file(step->where(), "'" + plan.name(value) + "', which no step before it makes",
                  "a tensor that is there");
      }
    }
    for (const int value : step->writes) {
      if (defined[static_cast<size_t>(value)]) {
        fail_file(step->where(), "a second '" + plan.name(value) + "'", "names that are given once");
      }
      defined[static_cast<size_t>(value)] = true;
    }
  }
  for (const int output : plan.outputs) {
    if (!defined[static_cast<size_t>(output)])
      fail_file("the outputs", "'" + plan.name(output) + "'", "tensors");
  }
}

void check_tensors(const Plan& plan, bool is_hosted) {
  for (const TensorRecord& tensor : plan.tensors) {
    const std::string where = "tensor '" + tensor.name + "'";
    if (tensor.is_string && !is_hosted)
      throw Failure(INTACT_UNSUPPORTED, where + ": got strings, want numbers");
    if (tensor.rank() > (is_hosted ? kMostAxes : kMaxRank))
      throw Failure(INTACT_UNSUPPORTED, where + ": got more axes than kernels walk");
  }
  // What callers pass may be any code, and proofs of sums rest on what a grid says.
  if (is_hosted) return;  // a host answers for what it passes
  for (const int input : plan.inputs) {
    const Codes* const grid = plan.grid(input);
    if (grid != nullptr && (grid->low != grid->format_low() || grid->high != grid->format_high())) {
      fail_file("tensor '" + plan.name(input) + "'", "bounds of codes", "none: nothing here makes them");
    }
  }
}

}  // namespace

void Plan::release_unread() {
  if (!container_.file.is_mapped || is_released_.exchange(true)) return;
  for (const ConstantRecord& constant : constants) {
    if (!arrays.was_read(constant)) release_pages(constant.stored ? constant.stored->codes : constant.bytes);
  }
}

PlanStep::PlanStep(Fields& fields, Traits traits_) : name(fields.text("name")), traits(traits_) {
  fields.texts("nodes");  // nobody needs them, but fields that are left over are refused
}

Shape PlanStep::output_shape(const Sizes& sizes) const { return sizes.of(reads[0]); }

void PlanStep::made_shapes(const Sizes& sizes, std::vector<Shape>& made) const {
  made.push_back(output_shape(sizes));
}

Plan::Plan(Bytes file, const std::string& where) : container_(read_container(std::move(file), where)) {
  const JsonDocument document(container_.plan, where);
  Reader(*this, container_, document.root(), where).read();
  check_tensors(*this, false);
  finish(false);
}

Plan::Plan(const std::string& json, Host& host, bool is_whole) : arrays(&host) {
  const std::string where = "the plan";
  const JsonDocument document(json, where);
  Reader(*this, container_, document.root(), where, &host).read();
  check_tensors(*this, true);
  finish(is_whole);
}

void Plan::finish(bool is_whole) {
  check_order(*this);
  for (const auto& step : steps) {
    const Checker checker(*this, *step);
    check_rules(*step, checker);
    step->check(checker);
  }
  connect();
  if (!is_whole) {
    fuse(*this);
    connect();
  }
  find_steps_of_sizes();
}

void Plan::find_steps_of_sizes() {
  std::vector<bool> made(tensors.size());
  of_sizes.assign(steps.size(), false);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto decided = [&](int v) { return is_constant(v) || made[static_cast<size_t>(v)]; };
    const bool is_part = dynamic_cast<const Part*>(steps[i].get()) != nullptr;
    of_sizes[i] = !is_part && std::all_of(steps[i]->reads.begin(), steps[i]->reads.end(), decided);
    for (const int v : steps[i]->writes) made[static_cast<size_t>(v)] = of_sizes[i];
  }
}

void Plan::connect() {
  readers.assign(tensors.size(), {});
  makers.assign(tensors.size(), -1);
  is_loose.assign(tensors.size(), false);
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const int value : steps[i]->reads) {
      if (is_tensor(value)) readers[static_cast<size_t>(value)].push_back(static_cast<int>(i));
    }
    for (const int value : steps[i]->writes) makers[static_cast<size_t>(value)] = static_cast<int>(i);
  }
  for (const int output : outputs)
    is_loose[static_cast<size_t>(output)] = readers[static_cast<size_t>(output)].empty();
  for (const int input : inputs) is_loose[static_cast<size_t>(input)] = false;
}

}  // namespace intact::engine
