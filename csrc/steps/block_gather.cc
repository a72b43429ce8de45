#include "steps/block_gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/tuning.h"
#include "kernels/block_gemm/block_gemm.h"
#include "steps/block_linear.h"
#include "steps/common/row_index.h"
#include "steps/common/views.h"

namespace intact {
namespace {

constexpr auto kOctet = static_cast<int64_t>(kBlockUnit);  // codes that end with a byte, of whatever bits
constexpr auto kPanel = static_cast<int64_t>(kBlockPanel);

class BlockGather final : public Step {
 public:
  explicit BlockGather(const BlockGatherSpec& s) : s_(s), k_(s.y.sizes[1]) {
    for (const View* v : {&s.index, &s.y, &s.scales.reals}) demand_rows(*v);
    rows_ = s.scales.reals.sizes[0];
    demand(is_index(s.index), "indices are int32 or int64");
    const int64_t count = s.index.sizes[0] * s.index.sizes[1];
    demand(s.y.type == Type::f32 && s.y.sizes[0] == count, "a row of floats for each index");
    demand(2 <= s.bits && s.bits <= 8 && s.block > 0, "blocks of codes of 2 to 8 bits");
    demand(0 < k_ && k_ < kMostElements && rows_ > 0, "there are codes");
    bytes_ = (k_ * s.bits + 7) / 8;
    blocks_ = (k_ - 1) / s.block + 1;
    octets_ = (k_ + kOctet - 1) / kOctet;
    if (s.is_packed) {
      const int64_t panels = (rows_ + kPanel - 1) / kPanel;
      demand_vector(s.codes, Type::u8, static_cast<size_t>(panels * panel_bytes()), "panels of codes");
    } else {
      demand_rows(s.codes);
      demand(s.codes.type == Type::u8 && s.codes.sizes[0] == rows_ && s.codes.sizes[1] == bytes_,
             "rows of packed codes");
    }
    if (s.table) {
      demand_vector(*s.table, Type::f32, kBlockTableSize, "a table of 16 values");
      demand(s.bits == 4 && !s.zeros, "places in a table have 4 bits and no zero points");
    }
    demand_values(s.scales);
    if (s.zeros) demand_values(*s.zeros, Type::u8);
    if (s.minima) demand_values(*s.minima);
    each_ = std::max<int64_t>(1, static_cast<int64_t>(tuning::indexing::kPiece) / k_);
    for (const View* v : {&s.index, &s.codes}) reads(*v);
    if (s.table) reads(*s.table);
    if (s.zeros) reads(*s.zeros);
    declare(s.scales);
    if (s.minima) declare(*s.minima);
    writes(s.y);
  }

  std::string name() const override { return "block_gather"; }
  size_t items() const override { return static_cast<size_t>((s_.y.sizes[0] + each_ - 1) / each_); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const int64_t last = std::min(static_cast<int64_t>(end) * each_, s_.y.sizes[0]);
    for (int64_t i = static_cast<int64_t>(begin) * each_; i < last; ++i) {
      const int64_t across = s_.index.sizes[1], item = static_cast<int64_t>(bytes_of(s_.index.type));
      const auto* const at = row_of<const uint8_t>(s_.index, memory, i / across) + i % across * item;
      const int64_t row = index_within(index_at(s_.index, at), rows_, memory);
      widen(memory, row, row_of<float>(s_.y, memory, i));
    }
  }

 private:
  void demand_values(const View& v, Type type) const {
    demand_rows(v);
    demand(v.type == type && v.sizes[0] == rows_ && v.sizes[1] == blocks_, "one number for each block");
  }
  void demand_values(const BlockRowValues& v) const {
    if (!v.fine) return demand_values(v.reals, Type::f32);
    demand_values(*v.fine, Type::i8);
    demand_rows(v.reals);
    const int64_t supers = v.reals.sizes[1];
    demand(v.reals.type == Type::f32 && v.reals.sizes[0] == rows_ && supers > 0 && blocks_ % supers == 0,
           "whole super-blocks");
  }
  void declare(const BlockRowValues& v) {
    reads(v.reals);
    if (v.fine) reads(*v.fine);
  }

  // Numbers of a row's blocks.
  class Row {
   public:
    Row(const BlockRowValues& v, const Memory& memory, int64_t row, int64_t blocks)
        : reals_(row_of<const float>(v.reals, memory, row)),
          fine_(v.fine ? row_of<const int8_t>(*v.fine, memory, row) : nullptr),
          each_(blocks / v.reals.sizes[1]) {}
    float operator[](int64_t b) const {
      return fine_ == nullptr ? reals_[b] : static_cast<float>(fine_[b]) * reals_[b / each_];
    }

   private:
    const float* reals_;
    const int8_t* fine_;
    int64_t each_;
  };

  int bits_of_panels() const { return packed_bits(s_.bits, k_); }
  int64_t panel_bytes() const { return octets_ * bits_of_panels() * kPanel; }

  void unpack_row(const Memory& memory, int64_t row, float* y) const {
    if (!s_.is_packed) {
      const auto* const codes = row_of<const uint8_t>(s_.codes, memory, row);
      for (int64_t k = 0; k < k_; k += kOctet) unpack(codes + k / kOctet * s_.bits, y + k, k_ - k);
      return;
    }
    const auto* const panel = s_.codes.at<const uint8_t>(memory) + row / kPanel * panel_bytes();
    for (int64_t k = 0; k < k_; ++k) {
      y[k] = block_code(panel, bits_of_panels(), static_cast<size_t>(k), static_cast<size_t>(row % kPanel));
    }
  }

  void widen(const Memory& memory, int64_t row, float* y) const {
    const Row scales(s_.scales, memory, row, blocks_);
    const auto* const zeros = s_.zeros ? row_of<const uint8_t>(*s_.zeros, memory, row) : nullptr;
    std::optional<Row> minima;
    if (s_.minima) minima.emplace(*s_.minima, memory, row, blocks_);
    const bool is_bytes = s_.bits == 8 && !s_.is_packed;  // of which the compiler widens many at once
    const auto* const bytes = is_bytes ? row_of<const uint8_t>(s_.codes, memory, row) : nullptr;
    if (!is_bytes) unpack_row(memory, row, y);
    const int no_zero = s_.table ? 0 : 1 << (s_.bits - 1);
    if (s_.table) {
      const auto* const values = s_.table->at<const float>(memory);
      for (int64_t k = 0; k < k_; ++k) y[k] = values[static_cast<size_t>(y[k])];
    }
    for (int64_t b = 0; b < blocks_; ++b) {
      const float scale = scales[b];
      const auto zero = static_cast<float>(zeros == nullptr ? no_zero : zeros[b]);
      const int64_t end = std::min(k_, (b + 1) * s_.block);
      if (is_bytes) {
        for (int64_t k = b * s_.block; k < end; ++k) y[k] = (static_cast<float>(bytes[k]) - zero) * scale;
      } else {
        for (int64_t k = b * s_.block; k < end; ++k) y[k] = (y[k] - zero) * scale;
      }
      if (!minima) continue;
      const float minimum = (*minima)[b];
      for (int64_t k = b * s_.block; k < end; ++k) y[k] += minimum;
    }
  }

  // The next codes, at most eight of them, as floats.
  void unpack(const uint8_t* codes, float* y, int64_t count) const {
    const auto bits = static_cast<unsigned>(s_.bits);
    const auto n = static_cast<unsigned>(std::min(count, kOctet));
    std::array<uint8_t, 8> bytes{};
    std::memcpy(bytes.data(), codes, (n * bits + 7) / 8);
    uint64_t octet = 0;
    for (unsigned i = 0; i < 8; ++i) octet |= uint64_t{bytes[i]} << (8 * i);
    for (unsigned i = 0; i < n; ++i, octet >>= bits) {
      y[i] = static_cast<float>(static_cast<int32_t>(octet & ((1u << bits) - 1)));
    }
  }

  BlockGatherSpec s_;
  int64_t k_, rows_ = 0, bytes_ = 0, blocks_ = 0, octets_ = 0, each_ = 1;
};

}  // namespace

std::unique_ptr<Step> make_block_gather(const BlockGatherSpec& spec) {
  return std::make_unique<BlockGather>(spec);
}

}  // namespace intact
