// Attention of new tokens to a cache [batch, heads, room, size] that they are first written to (N72).
#include "steps/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/sequence_positions.h"
#include "steps/cache_write.h"

namespace intact::engine {
namespace {

struct CachedAttention final : PlanStep {
  explicit CachedAttention(Fields& f)
      : PlanStep(f, {}),
        q(f.reads("q")),
        k(f.reads("k")),
        v(f.reads("v")),
        last(f.operand("last")),
        y(f.writes("y")),
        keys(f.writes("keys")),
        values(f.writes("values")),
        past_keys(f.reads("past_keys", true)),
        past_values(f.reads("past_values", true)),
        heads(f.integer("heads")),
        kv_heads(f.integer("kv_heads")),
        scale(f.real("scale")),
        softcap(f.real("softcap")),
        window(f.integer("window")),
        sinks(f.constant("sinks", Type::f32, 1, true)) {}

  void made_shapes(const Sizes& sizes, std::vector<Shape>& made) const override {
    const Shape &queries = sizes.of(q), &new_keys = sizes.of(k), &new_values = sizes.of(v);
    const int64_t size = new_keys[2] / kv_heads, value_size = new_values[2] / kv_heads;
    const auto alike = [&](const Shape& other) { return other[0] == queries[0] && other[1] == queries[1]; };
    if (new_keys[2] % kv_heads != 0 || queries[2] != product(size, heads) || !alike(new_keys))
      sizes.mismatch(k, "shape " + text_of(new_keys), "heads of the size of the queries");
    if (new_values[2] % kv_heads != 0 || !alike(new_values))
      sizes.mismatch(v, "shape " + text_of(new_values), "a row for each query");
    check_last(sizes, last, queries[0]);
    made = {{queries[0], queries[1], product(value_size, heads)},
            cache_shape(sizes, keys, past_keys, queries, size),
            cache_shape(sizes, values, past_values, queries, value_size)};
  }

  void bind(Binding& binding) const override {
    const View positions = view_last(binding, last);
    const RowsWritten new_keys(binding, keys), new_values(binding, values), to(binding, y);
    write_cache(binding, k, past_keys, new_keys, positions);
    write_cache(binding, v, past_values, new_values, positions);
    const bool has_cap = softcap != 0;
    std::optional<View> ends;
    if (sinks != kNoValue) ends = binding.constant(sinks);
    binding.add(make_cached_attention(
        *binding.kernels.float_gemm, *binding.kernels.float_steps, *binding.kernels.transpose,
        {rows_read(binding, q), new_keys.rows(), new_values.rows(), to.rows(), positions, heads, kv_heads,
         static_cast<float>(scale), has_cap ? static_cast<float>(scale / softcap) : 0.0f,
         static_cast<float>(softcap), window, kernels_of(binding),
         ends}));
    for (const RowsWritten* written : {&new_keys, &new_values, &to}) written->finish(binding);
  }

 private:
  static CacheKernels kernels_of(const Binding& binding) {
    const auto& kernels = binding.kernels;
    return {kernels.convert, kernels.dynamic_quantize, kernels.quantize};
  }

  Shape cache_shape(const Sizes& sizes, int made, int past, const Shape& queries, int64_t size) const {
    if (sizes.plan().tensor(made).type == Type::i8) size += int64_t{CacheRows::kScaleBytes};
    int64_t least = queries[1];
    if (past != kNoValue) {
      const Shape& old = sizes.of(past);
      if (old[0] != queries[0] || old[1] != kv_heads || old[3] != size)
        sizes.mismatch(past, "shape " + text_of(old), "a cache of the same sequences, heads and sizes");
      least = old[2];
    }
    return {queries[0], kv_heads, std::max(sizes.declared(made, 2).value_or(least), least), size};
  }

  void write_cache(Binding& binding, int added, int past, const RowsWritten& cache,
                   const View& positions) const {
    CacheWriteSpec spec{rows_read(binding, added), positions, {}, cache.rows(), kv_heads,
                        kernels_of(binding)};
    if (past != kNoValue) spec.past = rows_read(binding, past);
    binding.add(make_cache_write(spec));
  }

  int q, k, v, last, y, keys, values, past_keys, past_values;
  int64_t heads, kv_heads;
  double scale, softcap;
  int64_t window;
  int sinks;
};

}  // namespace

std::unique_ptr<PlanStep> read_cached_attention(Fields& fields) {
  return std::make_unique<CachedAttention>(fields);
}

}  // namespace intact::engine
