#include "steps/conv/conv_tiles.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "runtime/balance.h"
#include "steps/conv/deep_steps.h"
#include "steps/conv/tile_work.h"
#include "steps/conv/window.h"

namespace intact {
namespace {

using namespace tuning::conv_tiles;

using namespace conv_tiles;

class TiledConvStep final : public Step {
 public:
  explicit TiledConvStep(const ConvSpec& spec);

  size_t items() const override { return static_cast<size_t>(ranges_) * parts_; }
  int64_t work(size_t item) const override;
  std::string name() const override { return name_of(layer_->kernel); }
  Weights weights() const override;
  size_t scratch() const override { return lay_out(nullptr).second; }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override;

 private:
  void bind();
  bool walking_pays(const DeepSteps& steps, const Rows& all) const;
  std::optional<Rows> rows_in_image() const;
  void cut_chunks();
  void cut();
  void cut_into(int64_t blocks, size_t parts);
  int64_t fetch_cost() const;
  int64_t weights_bytes() const { return panels_.back().weights + panels_.back().bytes - panels_[0].weights; }
  size_t chunks() const { return chunks_.size() - 1; }
  bool gathers() const { return gathers_; }
  // Of each deep step from its row.
  const std::vector<int32_t>& offsets() const { return gathers_ ? steps_->gathered : steps_->deep.starts; }
  // Rows of outputs per block: half of its rows where codes have 16 bits, as high and low bytes take one
  // each.
  int64_t block_rows() const { return s_.low ? kTileRows : kBlockRows; }
  int64_t blocks_of(int64_t rows) const { return (rows + block_rows() - 1) / block_rows(); }
  int32_t groups() const { return panels_.back().group + 1; }
  Range range_of(int64_t i) const { return {i * range_rows_, std::min(rows_.total, (i + 1) * range_rows_)}; }
  int64_t shift_of(const Range& range, int64_t block) const;
  std::pair<int64_t, size_t> place_of(size_t item) const;
  std::pair<Work, size_t> lay_out(uint8_t* scratch) const;
  void fill(const Memory& memory, Work& work) const;
  void gather(int32_t group, Work& work) const;
  Ahead ahead_of(size_t chunk, int64_t range, bool fresh) const;
  Ahead later_of(const Memory& memory, size_t item, size_t chunk, size_t chunks) const;
  void run_chunk(const Memory& memory, size_t chunk, Ahead near, Ahead far, Work& work) const;
  void prepare(const Panel& panel, int64_t block, int rows, Work& work) const;

  const ConvViews s_;
  const std::shared_ptr<const ConvLayer> layer_;
  const TileOps& ops_;
  std::vector<Panel> panels_;
  const std::shared_ptr<const TileSteps> steps_;
  std::shared_ptr<const PaddedWeights> padded_;  // that the panels read; nullptr: the packed ones
  std::vector<size_t> chunks_;  // first panel of each, and the end
  size_t parts_ = 1;  // into which the chunks are divided
  bool gathers_ = false;  // else tiles are loaded from the image itself
  int64_t pitch_ = 0;
  Rows rows_{};
  int64_t range_rows_ = 1, ranges_ = 0;
  bool weights_first_ = false;  // the loop over ranges is inside the loop over chunks
};

// The rows of all positions of the window, if tiles can be loaded from the image itself. Rows must be a
// constant pitch apart, and at most kMostWalked times as many as there are outputs.
std::optional<Rows> TiledConvStep::rows_in_image() const {
  const View &x = s_.x, &y = s_.y;
  const int64_t pixel = x.strides[2], images = y.sizes[0], height = y.sizes[1], width = y.sizes[2];
  if (y.elements() == 0 || pixel <= 0 || s_.strides[0] != 1 || s_.strides[1] != 1) return std::nullopt;
  if (height > 1 && x.strides[1] % pixel != 0) return std::nullopt;
  if (images > 1 && x.strides[0] % pixel != 0) return std::nullopt;
  Rows all{height > 1 ? x.strides[1] / pixel : width, 0, 0};
  const int64_t image = (height - 1) * all.each_line + width;
  all.each_image = images > 1 ? x.strides[0] / pixel : image;
  all.total = (images - 1) * all.each_image + image;
  const bool some = all.total >= block_rows() && all.each_line >= width && all.each_image >= image &&
                    static_cast<double>(all.total) <= kMostWalked * static_cast<double>(rows_.total);
  return some ? std::optional(all) : std::nullopt;
}

// Returns whether loading tiles from the image is faster than gathering. It multiplies zeros, and rows that
// no output needs.
bool TiledConvStep::walking_pays(const DeepSteps& steps, const Rows& all) const {
  if (steps.idle() > 0 && (s_.x.block != 0 || (s_.low && s_.low->block != 0)))
    return false;  // only tensors of the arena have kSlack bytes behind them
  if (steps.is_full()) return true;
  int64_t channels = 0;
  for (const Panel& panel : panels_) channels += panel.width;
  const double more = static_cast<double>(all.total) / static_cast<double>(rows_.total);
  const auto walked = static_cast<double>(static_cast<int64_t>(steps.starts.size()) * channels) * more;
  const auto deep = static_cast<int64_t>((steps.places.size() + kDeepSteps - 1) / kDeepSteps);
  return walked <= static_cast<double>(deep * (channels + kWalkedChannels * groups()));
}

void TiledConvStep::bind() {
  const Packed& packed = layer_->packed;
  size_t constants = 0;
  panels_.reserve(packed.panels.size());
  for (const PackedPanel& p : packed.panels) {
    const int64_t depth = (p.steps + kDeepSteps - 1) / kDeepSteps;
    panels_.push_back({packed.weights + p.weights, p.channel, p.channels, p.width, p.group, constants,
                       depth * kDeepSteps * p.width * 4});
    constants += static_cast<size_t>(p.width);
  }
  const DeepSteps& deep = steps_->deep;
  const View& y = s_.y;
  rows_ = {y.sizes[2], y.sizes[1] * y.sizes[2], y.sizes[0] * y.sizes[1] * y.sizes[2]};
  const std::optional<Rows> all = rows_in_image();
  const bool walk = all && walking_pays(deep, *all);
  gathers_ = !walk;
  pitch_ = walk ? s_.x.strides[2] : kDeepBytes;
  if (walk) rows_ = *all;
  if (walk && !deep.is_full()) {
    padded_ = steps_->padded.get(true, [&] { return std::make_shared<const PaddedWeights>(deep, packed); });
    const int8_t* from = padded_->bytes.get();
    for (Panel& panel : panels_) {
      panel.weights = from;
      panel.bytes = deep.bytes_of(panel.width);
      from += panel.bytes;
    }
  }
  const size_t slack = slack_of(packed.header) + (walk ? deep.idle() : 0);
  reads(s_.x, slack);
  if (s_.low) reads(*s_.low, slack);
}

// Cuts the panels into chunks: neighbours of one group whose weights fit the first cache together.
void TiledConvStep::cut_chunks() {
  int64_t chunk = 0;
  for (size_t p = 0; p < panels_.size(); ++p) {
    const Panel& panel = panels_[p];
    const bool fits = p > 0 && chunk + panel.bytes <= kNearBytes && panel.group == panels_[p - 1].group;
    if (!fits) {
      chunks_.push_back(p);
      chunk = 0;
    }
    chunk += panel.bytes;
  }
  chunks_.push_back(panels_.size());
}

// An item is a range of rows by a part of the chunks. Each part gathers its rows again, so a single thread
// takes all chunks as one part.
void TiledConvStep::cut() {
  const int64_t deep = static_cast<int64_t>(offsets().size()) * kDeepBytes;  // bytes of a row
  const int64_t all = blocks_of(rows_.total);
  const int64_t room = std::clamp<int64_t>(kRangeBytes / deep, kBlockRows, kMostRows) / kBlockRows;
  const int64_t most = std::max<int64_t>(1, std::min(room, all));
  weights_first_ = !gathers() && weights_bytes() > kKeptBytes;
  cut_into(most, gathers() ? 1 : chunks());
  if (s_.threads == 1) return;
  Evenest evenest(s_.threads);
  int64_t blocks = most;
  size_t parts = parts_;
  for (int64_t b = most; b >= 1; b = b * 7 / 8) {
    for (size_t p = gathers() ? 1 : chunks(); p <= chunks(); p *= 2) {
      cut_into(b, p);
      const bool many = static_cast<int64_t>(items()) > Evenest::kMostItems * s_.threads;
      if ((many && b < most) || !evenest.takes(*this, fetch_cost())) continue;
      blocks = b;
      parts = p;
    }
  }
  cut_into(blocks, parts);
}

void TiledConvStep::cut_into(int64_t blocks, size_t parts) {
  range_rows_ = blocks * block_rows();
  ranges_ = (blocks_of(rows_.total) + blocks - 1) / blocks;
  parts_ = parts;
}

// The least time that a thread waits for memory, in products: for the weights of its parts, and for inputs
// that other threads wrote. The estimate assumes that a thread with rows of its own wrote its inputs itself,
// and that threads which share rows wrote an equal share each.
int64_t TiledConvStep::fetch_cost() const {
  const auto parts = static_cast<int64_t>(parts_);
  if (ranges_ == 0) return 0;  // no rows
  const int64_t bands = weights_first_ && parts >= s_.threads ? 1 : std::min<int64_t>(ranges_, s_.threads);
  const int64_t sharing = std::min(parts, (s_.threads + bands - 1) / bands);
  const int64_t inputs = s_.x.elements() * (s_.low ? 2 : 1) / bands * (sharing - 1) / sharing;
  const bool stay = weights_first_ || weights_bytes() <= kKeptBytes;  // in the cache, from range to range
  const int64_t weights = weights_bytes() / sharing * (stay ? 1 : (ranges_ + bands - 1) / bands);
  return (inputs * kForeignLineCost + weights * kWeightsLineCost) / kFetchedBytes;
}

TiledConvStep::TiledConvStep(const ConvSpec& spec)
    : s_(spec),
      layer_(spec.layer),
      ops_(*layer_->kernel->tiles),
      steps_(layer_->tile_steps.get(pitch_of(s_, layer_->packed.header), [&] {
        return std::make_shared<const TileSteps>(
            step_offsets(pitch_of(s_, layer_->packed.header), layer_->packed, layer_->packed.panels[0]));
      })) {
  const PackedHeader& h = layer_->packed.header;
  check_conv(s_, layer_->epilogue, int64_t{h.in} * h.groups, h.out, h.high);
  demand(s_.low.has_value() == layer_->is_wide, "low bytes where codes have 16 bits");
  check_window(s_, h);
  bind();
  cut_chunks();
  cut();
  writes(s_.y);
  if (s_.residual) reads(*s_.residual);
}

// The parts of a thread's scratch, and their bytes together. With nullptr it only counts.
std::pair<Work, size_t> TiledConvStep::lay_out(uint8_t* scratch) const {
  size_t used = 0;
  const auto take = [&](size_t bytes) {
    uint8_t* const piece = scratch == nullptr ? nullptr : scratch + used;
    used += align64(bytes);
    return piece;
  };
  const auto rows = static_cast<size_t>(range_rows_), tile = kBlockRows * 2 * kTileRows * sizeof(float);
  Work w{};
  w.rows.y = reinterpret_cast<uint8_t**>(take(rows * sizeof(void*)));
  w.rows.residual = reinterpret_cast<const uint8_t**>(take(s_.residual ? rows * sizeof(void*) : 0));
  w.rows.x = reinterpret_cast<const uint8_t**>(take(gathers() ? rows * sizeof(void*) : 0));
  w.nowhere = take(static_cast<size_t>(s_.y.sizes[3]) * bytes_of(s_.y.type) + kDeepBytes);
  for (TilePending& block : w.blocks) {
    block.epilogue = &layer_->epilogue;
    block.sums = reinterpret_cast<int32_t*>(take(tile));
    block.joins = s_.low.has_value();
    block.shift = layer_->shift;
  }
  w.floats = reinterpret_cast<float*>(take(tile));
  w.gathered =
      take(gathers() ? rows / static_cast<size_t>(block_rows()) * offsets().size() * kGatheredBytes : 0);
  w.group = -1;
  return {w, used};
}

// The number of rows by which the last block begins earlier. It then ends with the last row, so that no tile
// is loaded from behind the image. Gathered rows need no shift, because their memory has room for whole
// blocks.
int64_t TiledConvStep::shift_of(const Range& range, int64_t block) const {
  const int64_t left = range.count() - block * block_rows();
  if (gathers() || left >= block_rows()) return 0;
  return (left > kTileRows ? kBlockRows : kTileRows) - left;
}

// Fills the addresses of the rows of a range: output, residual and, where rows are gathered, input.
void TiledConvStep::fill(const Memory& memory, Work& work) const {
  const View &x = s_.x, &y = s_.y;
  const View& r = s_.residual ? *s_.residual : y;
  const int64_t height = y.sizes[1], width = y.sizes[2], count = work.range.count();
  int64_t n = work.range.first / rows_.each_image, rest = work.range.first % rows_.each_image;
  int64_t h = rest / rows_.each_line, w = rest % rows_.each_line, i = 0;
  const int64_t last = (blocks_of(count) - 1) * block_rows(),
                shift = shift_of(work.range, last / block_rows());
  int64_t to = 0;
  const auto skip = [&](int64_t rows) {
    for (; rows > 0; --rows, ++to) {
      work.rows.y[to] = work.nowhere;
      if (s_.residual) work.rows.residual[to] = work.nowhere;
      if (gathers()) work.rows.x[to] = nullptr;
    }
  };
  const auto pass = [&](int64_t rows, bool wanted) {
    uint8_t* const at = y.at<uint8_t>(memory) + n * y.strides[0] + h * y.strides[1] + w * y.strides[2];
    const uint8_t* const beside =
        r.at<uint8_t>(memory) + n * r.strides[0] + h * r.strides[1] + w * r.strides[2];
    const int64_t row = s_.origin[0] + h * s_.strides[0], column = s_.origin[1] + w * s_.strides[1];
    const uint8_t* const from =
        x.at<uint8_t>(memory) + n * x.strides[0] + row * x.strides[1] + column * x.strides[2];
    for (int64_t k = 0; k < rows; ++k, ++i) {
      if (i == last) skip(shift);
      if (!wanted) {
        skip(1);
        continue;
      }
      work.rows.y[to] = at + k * y.strides[2];
      if (s_.residual) work.rows.residual[to] = beside + k * r.strides[2];
      if (gathers()) work.rows.x[to] = from + k * s_.strides[1] * x.strides[2];
      ++to;
    }
    w += rows;
  };
  while (i < count) {
    if (h < height && w < width) pass(std::min(width - w, count - i), true);
    const int64_t end = h + 1 < height ? rows_.each_line : rows_.each_image - h * rows_.each_line;
    pass(std::min(end - w, count - i), false);
    w = 0;
    if (++h >= height) {
      h = 0;
      ++n;
    }
  }
  skip(blocks_of(to) * block_rows() - to);
}

void TiledConvStep::gather(int32_t group, Work& work) const {
  const int64_t in = s_.x.sizes[3] / groups();
  for (int64_t b = 0; b < blocks_of(work.range.count()); ++b) {
    const int64_t rows = std::min(block_rows(), work.range.count() - b * block_rows());
    uint8_t* const to = work.gathered + static_cast<size_t>(b) * offsets().size() * kGatheredBytes;
    TileGather of{steps_->pieces.data(), static_cast<int32_t>(steps_->pieces.size()),
                  work.rows.x + b * block_rows(), static_cast<ptrdiff_t>(group * in), static_cast<int>(rows)};
    ops_.gather(of, to);
    if (!s_.low) continue;
    of.x_offset += work.apart;
    ops_.gather(of, to + kTileRows * kDeepBytes);
  }
  work.group = group;
}

// The weights of the next chunk, to prefetch them while the core is busy.
// `fresh`: this thread has not used that chunk before.
Ahead TiledConvStep::ahead_of(size_t chunk, int64_t range, bool fresh) const {
  if (chunk + 1 == chunks()) return {};
  const Panel &first = panels_[chunks_[chunk + 1]], &last = panels_[chunks_[chunk + 2] - 1];
  const int64_t all = last.weights + last.bytes - first.weights;
  if (!weights_first_) return {first.weights, fresh ? all : 0};
  const int64_t begin = all * range / ranges_, end = all * (range + 1) / ranges_;
  return {first.weights + begin, end - begin};
}

// Prepares the epilogue of the block whose sums come next. It fills the record in place: a copy would load,
// as one wide value, what narrower stores have just written, which stalls.
void TiledConvStep::prepare(const Panel& panel, int64_t block, int rows, Work& work) const {
  const PanelConstants& constants = layer_->constants;
  TilePending& now = work.now();
  now.correction = constants.correction.data() + panel.constants;
  if (now.joins) now.high_correction = constants.high.data() + panel.constants;
  now.done = 0;
  GemmRows& r = now.rows;
  r.sums = now.sums;
  r.rows = rows;
  r.width = panel.width;
  r.channels = panel.channels;
  r.multiplier = constants.multiplier.data() + panel.constants;
  r.bias = constants.bias.data() + panel.constants;
  r.y = work.rows.y + block * block_rows();
  r.y_offset = panel.channel * static_cast<ptrdiff_t>(bytes_of(s_.y.type));
  r.residual = s_.residual ? work.rows.residual + block * block_rows() : nullptr;
  r.residual_offset = panel.channel;
  r.scratch = work.floats;
  r.factors = PanelConstants::part_of(constants.factors, panel.constants);
  r.slopes = PanelConstants::part_of(constants.slopes, panel.constants);
  r.offsets = PanelConstants::part_of(constants.offsets, panel.constants);
  r.gains = PanelConstants::part_of(constants.gains, panel.constants);
  r.shifts = PanelConstants::part_of(constants.shifts, panel.constants);
  now.finish = ops_.epilogue(layer_->epilogue, r, now.joins);
}

void TiledConvStep::run_chunk(const Memory& memory, size_t chunk, Ahead near, Ahead far, Work& work) const {
  const int64_t blocks = blocks_of(work.range.count());
  const size_t begin = chunks_[chunk], end = chunks_[chunk + 1];
  const int64_t deep = blocks * static_cast<int64_t>(end - begin) * static_cast<int64_t>(offsets().size());
  far.bytes = std::min(far.bytes, deep * kMostFarLines * kFetchedBytes);
  const int64_t wanted = ((near.bytes + far.bytes) / kFetchedBytes + deep - 1) / deep;
  const auto lines = static_cast<int>(std::min(wanted, kMostLines));
  const int64_t group_bytes = s_.x.sizes[3] / groups() * panels_[begin].group;
  const uint8_t* const corner = s_.x.at<uint8_t>(memory) + s_.origin[0] * s_.x.strides[1] +
                                s_.origin[1] * s_.x.strides[2] + group_bytes;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t left = work.range.count() - b * block_rows();
    const int64_t row = work.range.first + b * block_rows() - shift_of(work.range, b);
    TileBlock block{};
    block.x = gathers() ? work.gathered + static_cast<size_t>(b) * offsets().size() * kGatheredBytes
                        : corner + row * pitch_;
    block.pitch = static_cast<ptrdiff_t>(pitch_);
    block.offsets = offsets().data();
    block.depth = static_cast<int32_t>(offsets().size());
    const bool below = left > kTileRows || s_.low;
    block.below = gathers() ? kTileRows * kDeepBytes : s_.low ? work.apart : kTileRows * block.pitch;
    block.rows = below ? kBlockRows : kTileRows;
    block.most = static_cast<int>(block_rows());
    for (size_t p = begin; p < end; ++p) {
      const Panel& panel = panels_[p];
      prepare(panel, b, std::min(block.rows, block.most), work);
      const GemmRows& ends = work.now().rows;
      block.ends = p == begin || ends.y_offset % kDeepBytes == 0 ? &ends : nullptr;
      block.width = panel.width;
      block.weights = panel.weights;
      block.sums = work.now().sums;
      Ahead& ahead = near.bytes > 0 ? near : far;
      block.next = ahead.from;
      block.lines = ahead.bytes > 0 ? lines : 0;
      ahead.pass(int64_t{block.lines} * block.depth * kFetchedBytes);
      ops_.sum(block, work.before());
      work.odd = !work.odd;
    }
  }
}

// The share of a later step's weights that a chunk of an item prefetches. Threads divide the items of both
// steps alike, so that each finds its own weights in its cache.
Ahead TiledConvStep::later_of(const Memory& memory, size_t item, size_t chunk, size_t chunks) const {
  const auto bytes = static_cast<int64_t>(memory.ahead().bytes), most = std::min(bytes, kMostAhead);
  const auto place = static_cast<int64_t>(item * chunks + chunk),
             all = static_cast<int64_t>(items() * chunks);
  const int64_t begin = most * place / all, end = most * (place + 1) / all;
  return {reinterpret_cast<const int8_t*>(memory.ahead().data) + begin, end - begin};
}

// The range of rows and the part of the chunks of an item.
std::pair<int64_t, size_t> TiledConvStep::place_of(size_t item) const {
  const auto ranges = static_cast<size_t>(ranges_);
  if (weights_first_) return {static_cast<int64_t>(item % ranges), item / ranges};
  return {static_cast<int64_t>(item / parts_), item % parts_};
}

// The cost of an item in products: those of whole blocks, gathering, and the fixed cost kItemCost.
int64_t TiledConvStep::work(size_t item) const {
  const auto [range, part] = place_of(item);
  const size_t first = chunks_[chunks() * part / parts_], end = chunks_[chunks() * (part + 1) / parts_];
  int64_t bytes = 0;
  for (size_t p = first; p < end; ++p) bytes += panels_[p].bytes;
  const int64_t deep = static_cast<int64_t>(offsets().size()) * kDeepBytes;
  if (gathers()) bytes += deep * kGatherChannels * (panels_[end - 1].group - panels_[first].group + 1);
  return bytes * kBlockRows * blocks_of(range_of(range).count()) + kItemCost;
}

void TiledConvStep::run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept {
  Work work = lay_out(scratch).first;
  if (s_.low) work.apart = s_.low->at<uint8_t>(memory) - s_.x.at<uint8_t>(memory);
  ops_.enter();
  int64_t range = -1, first = -1;
  for (size_t item = begin; item < end; ++item) {
    const auto [next, part] = place_of(item);
    if (next != range) {
      work.flush();
      range = next;
      first = first < 0 ? range : first;
      work.range = range_of(range);
      work.group = -1;
      fill(memory, work);
    }
    const size_t from = chunks() * part / parts_, to = chunks() * (part + 1) / parts_;
    for (size_t chunk = from; chunk < to; ++chunk) {
      const int32_t group = panels_[chunks_[chunk]].group;
      if (gathers() && work.group != group) gather(group, work);
      const Ahead near = ahead_of(chunk, range, range == first);
      run_chunk(memory, chunk, near, later_of(memory, item, chunk - from, to - from), work);
    }
  }
  work.flush();
  ops_.leave();
}

Weights TiledConvStep::weights() const {
  return {reinterpret_cast<const uint8_t*>(panels_[0].weights), static_cast<size_t>(weights_bytes())};
}

}  // namespace

bool fills(const GemmOps& kernel, int64_t pixels, int64_t window, int64_t channels) {
  if (kernel.tiles != nullptr) return pixels >= kTileRows && window > kShallow;
  return channels > kNarrowest || kernel.unit <= kNarrowest;
}

std::unique_ptr<Step> make_tiled_conv(const ConvSpec& spec) { return std::make_unique<TiledConvStep>(spec); }

}  // namespace intact
