#include "engine/binding.h"

#include "engine/failure.h"
#include "runtime/memory.h"
#include "steps/halo.h"

namespace intact::engine {
namespace {

void set_axes(View& v, const Axes& sizes, const Axes& strides) {
  v.rank = sizes.rank;
  v.sizes = view_axes(sizes);
  v.strides = view_axes(strides);
}

// Ends of the bytes in a tensor's memory, its halo included: what kernels' proofs rest on.
void set_bounds(View& v, const TensorRecord& tensor) {
  if (!tensor.codes) return;
  v.low = static_cast<uint8_t>(tensor.codes->held_low() + tensor.codes->offset());
  v.high = static_cast<uint8_t>(tensor.codes->held_high() + tensor.codes->offset());
}

}  // namespace

View dense_view(uint32_t block, size_t offset, Type type, const Shape& shape) {
  View v;
  v.block = block;
  v.offset = offset;
  v.type = type;
  set_axes(v, shape, dense_strides(shape, static_cast<int64_t>(bytes_of(type))));
  return v;
}

Binding::Binding(Plan& plan_, const Kernels& kernels_, int threads, const KnownDims& known_,
                 const std::vector<Shape>& shapes, const Layout& layout, const std::vector<Place>& places,
                 int64_t arena, Program& program, Owners& owners, Layers& layers, Host* host)
    : plan(plan_),
      kernels(kernels_),
      known(known_),
      threads_(threads),
      whole_sizes_(shapes),
      layout_(layout),
      whole_places_(places),
      sizes_(&shapes),
      places_(&places),
      program_(program),
      owners_(owners),
      constants_(plan_.constants.size()),
      layers_(layers),
      host_(host),
      planned_(arena),
      top_(arena),
      most_(arena) {}

View Binding::view(int value) {
  if (plan.is_constant(value)) return constant(value);
  const auto at = static_cast<size_t>(value);
  View v;
  v.block = (*places_)[at].block;
  v.offset = (*places_)[at].offset;
  v.type = tensor(value).type;
  set_axes(v, (*sizes_)[at], layout_.frames[at].strides);
  set_bounds(v, tensor(value));
  return v;
}

View Binding::image(int value) const {
  const auto at = static_cast<size_t>(value);
  const Frame& frame = layout_.frames[at];
  View v;
  v.block = (*places_)[at].block;
  v.offset = (*places_)[at].offset;
  v.type = tensor(value).type;
  set_axes(v, channels_last((*sizes_)[at]), channels_last(frame.strides));
  v.halo = frame.halo;
  set_bounds(v, tensor(value));
  return v;
}

View Binding::constant(int value) {
  const ConstantRecord& record = plan.constant(value);
  const size_t number = static_cast<size_t>(value) - plan.tensors.size();
  uint32_t& block = constants_[number];
  if (block != 0) return dense_view(block, 0, record.type, record.shape);
  const auto bytes = layers_.get<Bytes>({-1, static_cast<int>(number)},
                                        [&] { return std::make_shared<const Bytes>(plan.array(value)); });
  const View view = keep(*bytes, record.type, record.shape);
  block = view.block;
  return view;
}

std::span<const uint8_t> Binding::fixed_bytes(int value) const {
  const auto at = static_cast<size_t>(value);
  if (held_tensors_ == nullptr || !(*held_tensors_)[at]) {
    fail(INTACT_UNSUPPORTED, "tensor '" + plan.name(value) + "'", "numbers that a run makes",
         "numbers that follow from sizes alone");
  }
  const int64_t nbytes = product(elements((*sizes_)[at]), tensor(value).itemsize());
  return held_values_.subspan(whole_places_[at].offset, static_cast<size_t>(nbytes));
}

View Binding::keep(const Bytes& bytes, Type type, const Shape& shape) {
  if (bytes.owner) own(bytes.owner);
  return dense_view(program_.constant(bytes.bytes.data(), bytes.bytes.size()), 0, type, shape);
}

View Binding::hold(const void* data, size_t bytes, Type type, const Shape& shape) {
  held_bytes_ += bytes;
  return keep(aligned_copy(data, bytes), type, shape);
}

RealIn Binding::real_in(int value) {
  const Codes* const codes = grid(value);
  return codes == nullptr ? RealIn{view(value)} : RealIn{view(value), codes->zero(), codes->scale32()};
}

RealOut Binding::real_out(int value) {
  const Codes* const codes = grid(value);
  if (codes == nullptr) return {view(value), 1.0f, {0, 0, 255}};
  return {view(value), codes->scale32(), {codes->zero(), codes->byte_low(), codes->byte_high()}};
}

void Binding::cut(std::vector<Shape> sizes, std::vector<Place> places) {
  cut_sizes_ = std::move(sizes);
  cut_places_ = std::move(places);
  sizes_ = &cut_sizes_;
  places_ = &cut_places_;
  is_cut_ = true;
}

void Binding::end_cut() {
  sizes_ = &whole_sizes_;
  places_ = &whole_places_;
  is_cut_ = false;
}

View Binding::temporary(Type type, const Shape& shape) {
  if (is_cut_) fail(INTACT_INTERNAL, "a step about parts of tensors", "temporary memory", "none");
  const int64_t offset = top_, nbytes = product(elements(shape), static_cast<int64_t>(bytes_of(type)));
  if (nbytes > kMostEngineBytes) fail(INTACT_BAD_SHAPE, "a step's memory", text_of(shape), "less");
  program_.tensor(static_cast<size_t>(offset), static_cast<size_t>(nbytes));
  top_ = align64(offset + nbytes + static_cast<int64_t>(kSlack));
  most_ = std::max(most_, top_);
  return dense_view(0, static_cast<size_t>(offset), type, shape);
}

bool Binding::same_memory(const View& x, const View& y) {
  bool same = x.block == y.block && x.offset == y.offset;
  for (int i = 0; i < x.rank; ++i) same = same && (x.sizes[i] == 1 || x.strides[i] == y.strides[i]);
  return same;
}

void Binding::add_halo(int value) {
  if (layout_.frames[static_cast<size_t>(value)].halo == kNoHalo) return;
  const Codes* const codes = grid(value);  // all bytes of +0 are 0
  add(make_halo({image(value), static_cast<uint8_t>(codes == nullptr ? 0 : codes->zero())}));
}

void Binding::add_step(const PlanStep& step) {
  top_ = planned_;  // steps of one plan share their temporary memory
  for (const int value : step.writes) {
    // Of what lies whole, and is written image by image, halos are written before: neighbours share them.
    const bool part = is_cut_ && (*places_)[static_cast<size_t>(value)].is_window;
    if (!part) add_halo(value);
  }
  step_ = &step;
  step.bind(*this);
  step_ = nullptr;
}

}  // namespace intact::engine
