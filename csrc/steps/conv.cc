#include "steps/conv.h"

#include <algorithm>

#include "runtime/balance.h"
#include "steps/conv/conv_step.h"
#include "steps/conv/conv_tiles.h"
#include "steps/common/panel_constants.h"
#include "steps/conv/window.h"

namespace intact {
namespace conv_panels {
namespace {

// Pairs of (offset, number of steps) for offsets that grow by 4.
std::vector<int32_t> runs_of(const std::vector<int32_t>& offsets) {
  std::vector<int32_t> runs;
  int32_t next = -1;
  for (const int32_t offset : offsets) {
    if (!runs.empty() && offset == next) {
      ++runs.back();
    } else {
      runs.insert(runs.end(), {offset, 1});
    }
    next = offset + 4;
  }
  return runs;
}

}  // namespace

// Whether a panel reads copies of windows.
bool reads_copies(const PackedHeader& header, const PackedPanel& panel) {
  return header.grouped == kGroupedForInliers || (header.grouped != 0 && is_words(panel));
}

// Binds a panel that reads copies of windows. Copies hold the steps in the order of the window, the same for
// all panels.
void PanelSteps::bind_copies(const ConvLayer& layer, const WindowPitch& pitch, const PackedPanel& from,
                             BoundPanel& panel) {
  const Packed& packed = layer.packed;
  const std::vector<int32_t> natural = window_steps(packed.header);
  const bool splits = packed.header.grouped == kGroupedForInliers;
  if (!copies.any()) copies.need(runs_of(step_offsets(pitch, packed.header, natural)), splits, layer.zero);
  std::vector<int32_t>& own = steps.back();
  std::vector<int32_t> found_at(splits ? natural.size() : 0);
  for (size_t i = 0; i < own.size(); ++i) {
    const int32_t position = packed.positions[static_cast<size_t>(from.positions) + i];
    const auto found = std::lower_bound(natural.begin(), natural.end(), position) - natural.begin();
    own[i] = static_cast<int32_t>(4 * found);
    if (splits) found_at[static_cast<size_t>(found)] = static_cast<int32_t>(i);
  }
  places.push_back(std::move(found_at));
  panel.steps.steps = own.data();
  panel.steps.places = splits ? places.back().data() : nullptr;
  panel.steps.words = static_cast<int32_t>(own.size());
}

PanelSteps::PanelSteps(const ConvLayer& layer, const WindowPitch& pitch, int64_t shares) {
  const Packed& packed = layer.packed;
  const bool grouped = layer.kernel->grouped;
  size_t constants = 0;
  panels.reserve(packed.panels.size());
  for (const PackedPanel& p : packed.panels) {
    if (steps.empty() || grouped) {
      std::vector<int32_t> offsets = step_offsets(pitch, packed, p);
      steps.push_back(grouped ? std::move(offsets) : runs_of(offsets));
    }
    const int32_t before = shares > 1 ? p.group * (packed.header.out / packed.header.groups) : 0;
    BoundPanel panel{{packed.weights + p.weights, steps.back().data(), {}, p.width},
                     p.channel - before,
                     p.channels,
                     p.group,
                     constants,
                     int64_t{p.steps} * p.width * 4};
    constants += static_cast<size_t>(p.width);
    std::copy(std::begin(p.counts), std::end(p.counts), panel.steps.counts);
    if (reads_copies(packed.header, p)) bind_copies(layer, pitch, p, panel);
    if (!grouped) panel.steps.counts[0] = static_cast<int32_t>(steps.back().size() / 2);
    panels.push_back(panel);
    widest = std::max(widest, p.width);
  }
}

// A grouped kernel has a loop for each number of steps that share a 16-bit sum, and that number decides its
// speed.
std::vector<Loop> ConvStep::loops() const {
  std::vector<Loop> by_size;
  for (int size = kMostGroup; size >= 1 && layer_->kernel->grouped; --size) {
    int64_t products = 0;
    for (const BoundPanel& p : panels_) {
      products += pixels_ * p.steps.counts[size - 1] * size * p.steps.width * 4 / shares_;
    }
    if (products > 0) by_size.push_back({std::to_string(size) + "-step", products});
  }
  int64_t words = 0;
  for (const BoundPanel& p : panels_) {
    if (p.steps.places == nullptr) words += pixels_ * p.steps.words * p.steps.width * 4 / shares_;
  }
  if (words > 0) by_size.push_back({"words", words});
  return by_size;
}

// Cuts the panels into chunks: neighbours of at most `most` bytes together.
void ConvStep::cut_chunks(int64_t most) {
  int64_t chunk = 0;
  cut_.chunks.clear();
  for (size_t p = 0; p < panels_.size(); ++p) {
    if (p == 0 || chunk + panels_[p].bytes > most) {
      cut_.chunks.push_back(p);
      chunk = 0;
    }
    chunk += panels_[p].bytes;
  }
  cut_.chunks.push_back(panels_.size());
}

// Bytes of weights of a chunk, which is also its number of products per pixel.
int64_t ConvStep::chunk_bytes(size_t chunk) const {
  int64_t bytes = 0;
  for (size_t p = cut_.chunks[chunk]; p < cut_.chunks[chunk + 1]; ++p) bytes += panels_[p].bytes;
  return bytes;
}

// The number of blocks with which an item has about so many products.
int64_t ConvStep::blocks_for(int64_t products) const {
  int64_t largest = 0;
  for (size_t chunk = 0; chunk + 1 < cut_.chunks.size(); ++chunk) {
    largest = std::max(largest, chunk_bytes(chunk));
  }
  const int64_t pixels = std::clamp<int64_t>(products * shares_ / largest, cut_.rows, kMostPixels);
  const int64_t each = std::max<int64_t>(1, (pixels + cut_.rows / 2) / cut_.rows);
  return (tiles() + each - 1) / each;
}

void ConvStep::cut() {
  cut_.rows = layer_->kernel->rows[widest_ / layer_->kernel->unit - 1];
  int64_t products = 0;
  for (const BoundPanel& panel : panels_) products += panel.bytes * pixels_ / shares_;
  const int64_t item = std::clamp(products / 16, kSmallItem, kLargeItem);
  cut_chunks(largest_chunk());
  cut_.blocks = blocks_for(item);
  if (s_.threads > 1 && pixels_ > 0) cut_evenly(item, products);
  cut_.most_pixels = joins() ? std::min(pixels_, kMostPixels) : 0;
  for (int64_t b = 0; b < cut_.blocks; ++b) {
    cut_.most_pixels = std::max(cut_.most_pixels, pixel_of(b + 1) - pixel_of(b));
  }
  copies_.cut(cut_.rows, cut_.most_pixels);
}

// Cuts the work so that all threads end together. It tries more blocks and, where there are too few rows for
// them, smaller chunks.
void ConvStep::cut_evenly(int64_t item, int64_t products) {
  const int64_t items = std::min(products / kSmallestItem, Evenest::kMostItems * s_.threads);
  Evenest evenest(s_.threads);
  int64_t blocks = cut_.blocks, bytes = largest_chunk();
  for (int64_t chunk = bytes; chunk >= kSmallestChunk; chunk /= 2) {
    cut_chunks(chunk);
    const auto chunks = static_cast<int64_t>(cut_.chunks.size() - 1);
    const int64_t fewest = blocks_for(item), most = std::clamp(items / chunks, fewest, tiles());
    for (int64_t b = fewest; b <= most; b += 1 + b / 16) {
      cut_.blocks = b;
      if (!evenest.takes(*this)) continue;
      blocks = b;
      bytes = chunk;
    }
  }
  cut_chunks(bytes);
  cut_.blocks = blocks;
}

namespace {

// Throws std::invalid_argument where weights, images and window do not fit each other.
const ConvSpec& checked(const ConvSpec& s) {
  const PackedHeader& h = s.layer->packed.header;
  check_conv(s, s.layer->epilogue, int64_t{h.in} * h.groups, h.out, h.high);
  demand(s.low.has_value() == s.layer->is_wide, "low bytes where codes have 16 bits");
  check_window(s, h);
  return s;
}

}  // namespace

ConvStep::ConvStep(const ConvSpec& spec) : ConvStep(checked(spec), false) {}

ConvStep::ConvStep(const ConvSpec& spec, bool by_index)
    : s_(spec),
      layer_(spec.layer),
      shares_(by_index ? layer_->packed.header.groups : 1),
      window_(layer_->panel_steps.get(
          {pitch_of(s_, layer_->packed.header)[0], pitch_of(s_, layer_->packed.header)[1], shares_},
          [&] {
            return std::make_shared<const PanelSteps>(*layer_, pitch_of(s_, layer_->packed.header), shares_);
          })),
      panels_(window_->panels),
      copies_(window_->copies),
      widest_(window_->widest) {
  const PackedHeader& h = layer_->packed.header;
  group_channels_ = by_index ? 0 : h.in;
  pixels_ = s_.y.sizes[0] * s_.y.sizes[1] * s_.y.sizes[2];
  cut();
  reads(s_.x, slack_of(h));
  if (s_.low) {
    reads(*s_.low, slack_of(h));
  }
  writes(s_.y);
  if (s_.residual) reads(*s_.residual);
}

// The cost of an item in products: its own, and the fixed cost kItemCost.
int64_t ConvStep::work(size_t item) const {
  const size_t chunk = item / blocks();
  const auto block = static_cast<int64_t>(item % blocks());
  return chunk_bytes(chunk) * (pixel_of(block + 1) - pixel_of(block)) / shares_ + kItemCost;
}

size_t ConvStep::tile_bytes() const {
  return align64(static_cast<size_t>(cut_.rows) * static_cast<size_t>(widest_) * sizeof(float));
}

size_t ConvStep::scratch() const {
  const size_t rows = align64(3 * sizeof(void*) * static_cast<size_t>(cut_.most_pixels));
  return rows + tiles_kept() * tile_bytes() + (s_.low ? 2 : 1) * copies_.bytes();
}

Scratch ConvStep::scratch_at(uint8_t* at) const {
  const auto most = static_cast<size_t>(cut_.most_pixels);
  const Rows rows{reinterpret_cast<const uint8_t**>(at),
                  reinterpret_cast<uint8_t**>(at + most * sizeof(void*)),
                  reinterpret_cast<const uint8_t**>(at + 2 * most * sizeof(void*))};
  uint8_t* const behind = at + align64(3 * sizeof(void*) * most);
  const auto tile = [&](size_t i) { return behind + i * tile_bytes(); };
  return {rows, reinterpret_cast<float*>(tile(0)), reinterpret_cast<int32_t*>(tile(1)),
          s_.low ? reinterpret_cast<int32_t*>(tile(2)) : nullptr, tile(tiles_kept())};
}

// Fills the addresses of output pixels [first, end): window, output and residual.
void ConvStep::fill_rows(const Memory& memory, int64_t first, int64_t end, const Rows& rows) const {
  const View &x = s_.x, &y = s_.y;
  const View& r = s_.residual ? *s_.residual : y;
  const int64_t height = y.sizes[1], width = y.sizes[2];
  int64_t n = first / (height * width), h = first / width % height, w = first % width;
  const int64_t x_pixel = s_.strides[1] * x.strides[2];
  for (int64_t i = 0; i < end - first;) {
    const int64_t row = s_.origin[0] + h * s_.strides[0], column = s_.origin[1] + w * s_.strides[1];
    const int64_t window = n * x.strides[0] + row * x.strides[1] + column * x.strides[2];
    const uint8_t* from = x.at<uint8_t>(memory) + window;
    uint8_t* to = y.at<uint8_t>(memory) + n * y.strides[0] + h * y.strides[1] + w * y.strides[2];
    const uint8_t* beside = r.at<uint8_t>(memory) + n * r.strides[0] + h * r.strides[1] + w * r.strides[2];
    const int64_t pixels = std::min(width - w, end - first - i);
    for (int64_t k = 0; k < pixels; ++k, ++i) {
      rows.x[i] = from + k * x_pixel;
      rows.y[i] = to + k * y.strides[2];
      rows.residual[i] = beside + k * r.strides[2];
    }
    w = 0;
    if (++h == height) {
      h = 0;
      ++n;
    }
  }
}

// The weights to prefetch during panel p: those of the next panel, if this chunk is new to the thread.
// During the last panel of a chunk, the share of these blocks of the next chunk's first panel.
ConvStep::Ahead ConvStep::ahead_of(size_t chunk, Range blocks, size_t p, bool fresh) const {
  if (p + 1 == panels_.size()) return {nullptr, 0};
  const BoundPanel& next = panels_[p + 1];
  if (p + 1 < cut_.chunks[chunk + 1]) return {next.steps.weights, fresh ? next.bytes : 0};
  const int64_t begin = next.bytes * blocks.first / cut_.blocks, end = next.bytes * blocks.end / cut_.blocks;
  return {next.steps.weights + begin, end - begin};
}

// Runs some blocks of one chunk. `fresh`: the block before, on this thread, used other weights.
void ConvStep::run_blocks(const Memory& memory, size_t chunk, Range blocks, bool fresh,
                          uint8_t* scratch) const {
  const Scratch own = scratch_at(scratch);
  const Range pixels{pixel_of(blocks.first), pixel_of(blocks.end)};
  const int64_t all = pixels.end - pixels.first, most = copies_.any() ? copies_.rows() : all;
  const ptrdiff_t apart = s_.low ? s_.low->at<uint8_t>(memory) - s_.x.at<uint8_t>(memory) : 0;
  fill_rows(memory, pixels.first, pixels.end, own.rows);
  for (int64_t first = 0; first < all; first += most) {
    const Rows rows = own.rows.from(first);
    const int count = static_cast<int>(std::min(most, all - first));
    run_panels(cut_.chunks[chunk], cut_.chunks[chunk + 1], rows, count, apart, own,
               [&](size_t p) { return ahead_of(chunk, blocks, p, fresh); });
  }
}

// The inputs of the sums of a panel: bytes, or the high or low bytes of codes.
Source ConvStep::source_of(const BoundPanel& panel, const Rows& rows, ptrdiff_t offset,
                           const WindowCopies::Rows& copy, int count) const {
  GemmTile tile{
      rows.x,         offset_of_group(panel) + offset, count, nullptr, nullptr, nullptr, 0, copy.words,
      copies_.pitch()};
  if (panel.steps.words > 0 && copy.x != nullptr) {
    tile.x = copy.x;
    tile.x_offset = 0;
    tile.outliers = &copy.outliers;
  }
  return {tile, copy.ends};
}

void ConvStep::run_panel(const BoundPanel& panel, const Rows& rows, const WindowCopy& copy, int count,
                         const Ahead& ahead, const Scratch& own) const {
  const PanelConstants& constants = layer_->constants;
  const GemmOps& kernel = *layer_->kernel;
  Source source = source_of(panel, rows, 0, copy.x, count);
  source.tile.correction = constants.correction.data() + panel.constants;
  source.tile.sums = own.sums;
  source.tile.next = ahead.bytes > 0 ? ahead.from : nullptr;
  source.tile.next_bytes = ahead.bytes;
  GemmRows ends{own.sums,
                count,
                panel.steps.width,
                panel.channels,
                constants.multiplier.data() + panel.constants,
                constants.bias.data() + panel.constants,
                rows.y,
                panel.channel * static_cast<ptrdiff_t>(bytes_of(s_.y.type)),
                s_.residual ? rows.residual : nullptr,
                panel.channel,
                own.floats,
                PanelConstants::part_of(constants.factors, panel.constants),
                PanelConstants::part_of(constants.slopes, panel.constants),
                PanelConstants::part_of(constants.offsets, panel.constants),
                PanelConstants::part_of(constants.gains, panel.constants),
                PanelConstants::part_of(constants.shifts, panel.constants)};
  if (s_.low) {
    Source low = source_of(panel, rows, copy.apart, copy.low, count);
    low.tile.correction = source.tile.correction;
    low.tile.sums = own.low;
    source.tile.correction = constants.high.data() + panel.constants;
    return run_tiles(panel, source, &low, ends);
  }
  if (kernel.whole != nullptr && kernel.whole(panel.steps, source.tile, layer_->epilogue, ends)) return;
  run_tiles(panel, source, nullptr, ends);
}

// Runs all tiles of a panel. `source`, `low` and `rows` arrive as those of all rows and advance tile by
// tile, in place, because a copy costs as much as a few steps.
void ConvStep::run_tiles(const BoundPanel& panel, Source& source, Source* low, GemmRows& rows) const {
  GemmTile& tile = source.tile;
  const RowTiles cut(tile.rows, cut_.rows);
  // Bytes that one tile prefetches.
  const int64_t piece = tile.next == nullptr ? 0 : panel.bytes / panel.steps.width / 4 * kFetched;
  for (int t = 0; t < cut.number; ++t) {
    rows.rows = cut.height(t);
    if (piece * t >= tile.next_bytes) tile.next = nullptr;
    fetch_lines(rows.y, rows.rows, rows.y_offset);
    if (rows.residual != nullptr) fetch_lines(rows.residual, rows.rows, rows.residual_offset);
    source.sum(*layer_->kernel, panel.steps, t, rows.rows);
    if (low != nullptr) {
      low->sum(*layer_->kernel, panel.steps, t, rows.rows);
      join_tiles(tile.sums, low->tile.sums,
                 static_cast<size_t>(rows.rows) * static_cast<size_t>(panel.steps.width), layer_->shift);
    }
    layer_->kernel->finish(layer_->epilogue, rows);
    rows.y += rows.rows;
    if (rows.residual != nullptr) rows.residual += rows.rows;
    if (tile.next != nullptr) tile.next += piece;
  }
}

void ConvStep::run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept {
  for (size_t item = begin; item < end;) {
    const size_t chunk = item / blocks();
    const auto block = static_cast<int64_t>(item % blocks());
    const int64_t most = joins() ? std::min(cut_.blocks, block + static_cast<int64_t>(end - item)) : 0;
    Range range{block, block + 1};
    while (range.end < most && pixel_of(range.end + 1) - pixel_of(block) <= kMostPixels) ++range.end;
    run_blocks(memory, chunk, range, item == begin || block == 0, scratch);
    item += static_cast<size_t>(range.end - block);
  }
}

}  // namespace conv_panels

namespace {

// The epilogue of a layer, once its numbers are checked. Joined sums are rounded by a half, which the
// corrections of low bytes have besides.
EpilogueSpec checked_epilogue(const ConvLayerSpec& s, int64_t out) {
  EpilogueSpec epilogue = s.epilogue;
  check_epilogue(epilogue, out);
  demand(s.shift >= 0 && s.shift <= (s.is_wide ? 7 : 0),
         "joined sums are rounded to multiples of 2^0 to 2^7");
  demand(!s.is_wide || s.high_correction.size() == static_cast<size_t>(out),
         "one correction of high bytes for each channel");
  const uint32_t half = 1u << s.shift >> 1;
  for (int32_t& c : epilogue.correction) c = static_cast<int32_t>(static_cast<uint32_t>(c) + half);
  return epilogue;
}

}  // namespace

ConvLayer::ConvLayer(const ConvLayerSpec& s)
    : ConvLayer(s, read_packed(s.packed.data, s.packed.bytes, *s.kernel)) {}

ConvLayer::ConvLayer(const ConvLayerSpec& s, Packed read)
    : SettledEpilogue(checked_epilogue(s, read.header.out)),
      kernel(s.kernel),
      packed(std::move(read)),
      is_wide(s.is_wide),
      shift(s.shift),
      zero(s.zero),
      owner(s.packed.owner) {
  const int32_t base = WindowCopies::base_of(packed.header.grouped == kGroupedForInliers, zero);
  for (const PackedPanel& p : packed.panels) {
    std::vector<int32_t> shifted;
    const bool copies = kernel->grouped && conv_panels::reads_copies(packed.header, p);
    const int32_t more = kernel->tiles != nullptr ? 0 : kernel->shift + (copies ? base : 0);
    if (more != 0) shifted = weight_sums(packed.weights + p.weights, p, more);
    constants.append(epilogue, p.channel, p.channels, p.width, shifted);
    if (is_wide)
      PanelConstants::append(constants.high, s.high_correction, p.channel, p.channels, p.width, shifted);
  }
}

void check_conv(const ConvViews& s, const Epilogue& epilogue, int64_t in, int64_t out, int32_t high) {
  const View &x = s.x, &y = s.y;
  demand(x.high <= high, "weights are packed for smaller bytes");
  demand_image(x, "conv reads an image of bytes with dense pixels");
  demand(y.rank == 4 && y.strides[3] == static_cast<int64_t>(bytes_of(y.type)),
         "conv writes an image of dense pixels");
  demand(x.sizes[0] == y.sizes[0], "conv keeps the number of images");
  demand(y.sizes[3] == out && x.sizes[3] == in, "channels differ from the weights'");
  for (int i = 0; i < 4; ++i) demand(x.strides[i] >= 0, "conv reads rows in order");
  check_ends(epilogue, y, s.residual);
  if (!s.low) return;
  demand(s.low->high <= high, "weights are packed for smaller bytes");
  demand_image(*s.low, "conv reads an image of bytes with dense pixels");
  demand_same_sizes(*s.low, x);
  demand(s.low->strides == x.strides && s.low->halo == x.halo, "low bytes lie as the high ones do");
}

std::unique_ptr<Step> make_conv(const ConvSpec& spec) {
  if (spec.layer->kernel->tiles != nullptr) return make_tiled_conv(spec);
  return std::make_unique<conv_panels::ConvStep>(spec);
}

}  // namespace intact
