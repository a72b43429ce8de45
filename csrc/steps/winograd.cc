#include "steps/winograd.h"

#include <algorithm>
#include <cmath>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/epilogue.h"
#include "steps/common/panel_constants.h"

namespace intact {
namespace {

using namespace tuning::winograd;

constexpr int64_t kMostOutputs = int64_t{1} << 31;

int64_t tiles_across(int64_t outputs) { return (outputs + kTileOut - 1) / kTileOut; }

// Returns whether the transformed weights of the one panel are kept for all items of a run.
bool keeps_weights(int64_t panels, int64_t in, int64_t width) {
  return panels == 1 && kPoints * in * width * 2 <= kMostKept;
}

int64_t weights_bytes(int64_t panels, int64_t in, int64_t width) {
  return (keeps_weights(panels, in, width) ? kPoints : kTileIn) * in * width * 2;
}

// The number of blocks of tiles. Transformed inputs and sums of a block fit the room beside the weights, and
// blocks times panels are at least as many as threads.
int64_t blocks_of(int64_t tiles, int64_t panels, int64_t in, int64_t width, int threads) {
  const int64_t room = kRoom - weights_bytes(panels, in, width);
  const int64_t most = std::clamp(room / (kPoints * (in * 2 + width * 4)), kFewestTiles, kMostTiles);
  const int64_t blocks = std::max((tiles + most - 1) / most, (threads + panels - 1) / panels);
  return std::min(blocks, (tiles + kFewestTiles - 1) / kFewestTiles);
}

struct Tile {
  int64_t n, top, left;  // of its first output
};

class WinogradStep final : public Step {
 public:
  explicit WinogradStep(const WinogradSpec& spec);

  size_t items() const override { return static_cast<size_t>(blocks_) * chunks(); }
  int64_t work(size_t item) const override;
  std::string name() const override { return name_of(&kernel_); }
  size_t scratch() const override { return static_cast<size_t>(outputs_at_ + 2 * tile_bytes()); }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override;

 private:
  struct Scratch {
    int16_t* input;
    int16_t* weights;
    int32_t* sums;
    int32_t* outputs;
    float* floats;
  };
  void check_views(const WinogradHeader& h) const;
  void cut(int threads);
  size_t chunks() const { return (packed_.panels.size() + chunk_ - 1) / chunk_; }
  int64_t first_tile(int64_t block) const { return tiles_ * block / blocks_; }
  Tile tile_at(int64_t index) const;
  int64_t tile_bytes() const { return align64(int64_t{kTileOutputs} * widest_ * 4); }
  void transform(const Memory& memory, int64_t first, int64_t end, const Scratch& at) const;
  void run_panel(const Memory& memory, size_t panel, int64_t first, int64_t end, bool fresh,
                 const Scratch& at) const;
  void finish(const Memory& memory, size_t panel, const Tile& tile, const Scratch& at) const;

  const ConvViews s_;
  const std::shared_ptr<const WinogradLayer> layer_;
  const WinogradOps& kernel_;
  const WinogradPacked& packed_;
  const PanelConstants& constants_;
  int64_t across_ = 0, down_ = 0, tiles_ = 0;
  int64_t blocks_ = 0, most_tiles_ = 0;
  size_t chunk_ = 1;  // panels per item
  int widest_ = 0;
  int64_t plane_ = 0, sums_plane_ = 0;  // elements from one point's plane to the next
  int64_t weights_at_ = 0, sums_at_ = 0, outputs_at_ = 0;
  bool kept_ = false;
};

void WinogradStep::check_views(const WinogradHeader& h) const {
  const View &x = s_.x, &y = s_.y;
  check_conv(s_, layer_->epilogue, h.in, h.out, h.high);
  demand(!s_.low, "Winograd's form is for bytes");
  const bool plain = s_.strides[0] == 1 && s_.strides[1] == 1 && s_.dilations[0] == 1 && s_.dilations[1] == 1;
  demand(plain, "Winograd's form is for stride and dilation 1");
  if (y.elements() == 0) return;
  demand(y.elements() < kMostOutputs, "conv writes more than it can count");
  for (int i = 0; i < 2; ++i) {
    const int64_t last = s_.origin[i] + y.sizes[i + 1] - 1 + 2;
    const bool inside = s_.origin[i] >= -x.halo[i] && last <= x.sizes[i + 1] - 1 + x.halo[i + 2];
    demand(inside, "windows reach beyond the input and its halo");
  }
}

void WinogradStep::cut(int threads) {
  const int64_t in = packed_.header.in;
  const auto panels = static_cast<int64_t>(packed_.panels.size());
  blocks_ = blocks_of(tiles_, panels, in, widest_, threads);
  for (int64_t b = 0; b < blocks_; ++b)
    most_tiles_ = std::max(most_tiles_, first_tile(b + 1) - first_tile(b));
  const int64_t panel = std::max<int64_t>(most_tiles_ * kPoints * in * widest_, 1);
  const int64_t share = (blocks_ * panels + threads - 1) / threads;
  chunk_ = static_cast<size_t>(std::clamp<int64_t>(std::min(kItem / panel, share), 1, panels));
  plane_ = most_tiles_ * in + kApart / 2;
  sums_plane_ = most_tiles_ * widest_ + kApart / 4;
  weights_at_ = align64(kPoints * plane_ * 2);
  kept_ = keeps_weights(panels, in, widest_);
  sums_at_ = weights_at_ + align64(weights_bytes(panels, in, widest_));
  outputs_at_ = sums_at_ + align64(kPoints * sums_plane_ * 4);
}

WinogradStep::WinogradStep(const WinogradSpec& spec)
    : s_(spec),
      layer_(spec.layer),
      kernel_(*layer_->kernel),
      packed_(layer_->packed),
      constants_(layer_->constants) {
  check_views(packed_.header);
  down_ = tiles_across(s_.y.sizes[1]);
  across_ = tiles_across(s_.y.sizes[2]);
  tiles_ = s_.y.elements() == 0 ? 0 : s_.y.sizes[0] * down_ * across_;
  for (const WinogradPanel& p : packed_.panels) widest_ = std::max(widest_, p.width);
  cut(s_.threads);
  reads(s_.x);
  writes(s_.y);
  if (s_.residual) reads(*s_.residual);
}

Tile WinogradStep::tile_at(int64_t index) const {
  const int64_t row = index / across_;
  return {row / down_, row % down_ * kTileOut, index % across_ * kTileOut};
}

// Transforms the inputs of tiles [first, end). Pixels that only outputs beyond the image need are replaced
// by other pixels of the tile, because their values cancel out of all other outputs.
void WinogradStep::transform(const Memory& memory, int64_t first, int64_t end, const Scratch& at) const {
  const View& x = s_.x;
  const int64_t bottom = s_.y.sizes[1] + 1, right = s_.y.sizes[2] + 1;
  for (int64_t t = first; t < end; ++t) {
    const Tile tile = tile_at(t);
    WinogradPixels pixels{{}, {}, packed_.header.in};
    for (int i = 0; i < kTileIn; ++i) {
      const int64_t row = s_.origin[0] + std::min(tile.top + i, bottom);
      const int64_t column = s_.origin[1] + std::min(tile.left + i, right);
      pixels.rows[i] = x.at<uint8_t>(memory) + tile.n * x.strides[0] + row * x.strides[1];
      pixels.columns[i] = column * x.strides[2];
    }
    kernel_.transform_input(pixels, at.input + (t - first) * packed_.header.in, plane_);
  }
}

void WinogradStep::finish(const Memory& memory, size_t p, const Tile& tile, const Scratch& at) const {
  const View& y = s_.y;
  const View& r = s_.residual ? *s_.residual : y;
  const WinogradPanel& panel = packed_.panels[p];
  const auto constants = static_cast<size_t>(panel.channel);  // all panels before it are full
  const auto high = static_cast<int>(std::min<int64_t>(kTileOut, y.sizes[1] - tile.top));
  const auto wide = static_cast<int>(std::min<int64_t>(kTileOut, y.sizes[2] - tile.left));
  uint8_t* to[kTileOutputs];
  const uint8_t* beside[kTileOutputs];
  uint8_t* y_row =
      y.at<uint8_t>(memory) + tile.n * y.strides[0] + tile.top * y.strides[1] + tile.left * y.strides[2];
  const uint8_t* r_row =
      r.at<uint8_t>(memory) + tile.n * r.strides[0] + tile.top * r.strides[1] + tile.left * r.strides[2];
  for (int i = 0; i < kTileOutputs; i += kTileOut, y_row += y.strides[1], r_row += r.strides[1]) {
    for (int j = 0; j < kTileOut; ++j) {
      to[i + j] = y_row + j * y.strides[2];
      beside[i + j] = r_row + j * r.strides[2];
    }
  }
  const bool whole = wide == kTileOut;
  for (int i = 0; i < (whole ? 1 : high); ++i) {
    kernel_.gemm->finish(
        layer_->epilogue,
        {at.outputs + i * kTileOut * panel.width, whole ? high * kTileOut : wide, panel.width, panel.channels,
         constants_.multiplier.data() + constants, constants_.bias.data() + constants, to + i * kTileOut,
         panel.channel * static_cast<ptrdiff_t>(bytes_of(y.type)),
         s_.residual ? beside + i * kTileOut : nullptr, panel.channel, at.floats,
         PanelConstants::part_of(constants_.factors, constants),
         PanelConstants::part_of(constants_.slopes, constants),
         PanelConstants::part_of(constants_.offsets, constants),
         PanelConstants::part_of(constants_.gains, constants),
         PanelConstants::part_of(constants_.shifts, constants)});
  }
}

void WinogradStep::run_panel(const Memory& memory, size_t p, int64_t first, int64_t end, bool fresh,
                             const Scratch& at) const {
  const WinogradPanel& panel = packed_.panels[p];
  const int in = packed_.header.in, tiles = static_cast<int>(end - first);
  const ptrdiff_t points = ptrdiff_t{in} * panel.width;
  for (int point = 0; point < kPoints; ++point) {
    const int row = point / kTileIn, column = point % kTileIn;
    int16_t* const weights = at.weights + (kept_ ? row * kTileIn * points : 0);
    if (column == 0 && fresh) kernel_.transform_weights({panel.taps, in, panel.width, row}, weights);
    kernel_.multiply({at.input + point * plane_, weights + column * points, in, tiles, panel.width,
                      at.sums + point * sums_plane_});
  }
  for (int t = 0; t < tiles; ++t) {
    kernel_.transform_output(at.sums + ptrdiff_t{t} * panel.width, sums_plane_,
                             constants_.correction.data() + panel.channel, panel.width, at.outputs);
    finish(memory, p, tile_at(first + t), at);
  }
}

// The cost of an item in products; transforms grow with them.
int64_t WinogradStep::work(size_t item) const {
  const auto block = static_cast<int64_t>(item / chunks());
  const size_t first = item % chunks() * chunk_, end = std::min(packed_.panels.size(), first + chunk_);
  int64_t width = 0;
  for (size_t p = first; p < end; ++p) width += packed_.panels[p].width;
  return kPoints * (first_tile(block + 1) - first_tile(block)) * packed_.header.in * width;
}

void WinogradStep::run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept {
  const Scratch at{reinterpret_cast<int16_t*>(scratch), reinterpret_cast<int16_t*>(scratch + weights_at_),
                   reinterpret_cast<int32_t*>(scratch + sums_at_),
                   reinterpret_cast<int32_t*>(scratch + outputs_at_),
                   reinterpret_cast<float*>(scratch + outputs_at_ + tile_bytes())};
  for (size_t item = begin; item < end; ++item) {
    const auto block = static_cast<int64_t>(item / chunks());
    const size_t chunk = item % chunks();
    const int64_t first = first_tile(block), last = first_tile(block + 1);
    if (item == begin || chunk == 0) transform(memory, first, last, at);
    const size_t panels = std::min(packed_.panels.size(), (chunk + 1) * chunk_);
    for (size_t p = chunk * chunk_; p < panels; ++p)
      run_panel(memory, p, first, last, !kept_ || item == begin, at);
  }
}

}  // namespace

// Compares the time of the thread with the most pieces with an equal share of the products of `direct`.
bool winograd_pays(const WinogradOps& kernel, const GemmOps& direct, const WinogradWork& w) {
  if (direct.tiles != nullptr) return false;
  const int64_t most = int64_t{kernel.gemm->unit} * kernel.widest, panels = (w.out + most - 1) / most;
  const int64_t tiles = w.images * tiles_across(w.height) * tiles_across(w.width);
  if (tiles <= 0 || w.in <= 0 || w.in % kWinogradChannels != 0 || w.out <= 0 || w.threads <= 0) return false;
  const int64_t blocks = blocks_of(tiles, panels, w.in, std::min(w.out, most), w.threads);
  const auto outputs = static_cast<double>(w.images * w.height * w.width);
  const auto weights = static_cast<double>(w.in * w.out), channels = static_cast<double>(w.in + w.out);
  const WinogradCost& c = kernel.cost;
  const double each = kPoints * c.product * weights + c.channel * channels;
  const double all = static_cast<double>(blocks) * c.weight * weights + static_cast<double>(tiles) * each;
  const auto pieces = static_cast<double>(blocks * panels);
  const double turns = std::ceil(pieces / w.threads) * w.threads / pieces;
  return all * turns < outputs * 9 * weights;
}

namespace {

const EpilogueSpec& checked(const EpilogueSpec& epilogue, int64_t channels) {
  check_epilogue(epilogue, channels);
  return epilogue;
}

}  // namespace

WinogradLayer::WinogradLayer(const WinogradOps& ops, const PackedWeights& weights, const EpilogueSpec& spec)
    : WinogradLayer(ops, read_winograd(weights.data, weights.bytes, ops), weights, spec) {}

WinogradLayer::WinogradLayer(const WinogradOps& ops, WinogradPacked read, const PackedWeights& weights,
                             const EpilogueSpec& spec)
    : SettledEpilogue(checked(spec, read.header.out)),
      kernel(&ops),
      packed(std::move(read)),
      owner(weights.owner) {
  for (const WinogradPanel& p : packed.panels) {
    constants.append(epilogue, p.channel, p.channels, p.width, {});
  }
}

std::unique_ptr<Step> make_winograd(const WinogradSpec& spec) { return std::make_unique<WinogradStep>(spec); }

}  // namespace intact
