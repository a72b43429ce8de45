#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/tuning.h"
#include "kernels/gemm/packed.h"

namespace intact {
namespace {

using namespace tuning::packing;

constexpr int64_t kAlign = 64;

// "IGM1"; "IGM2" where panels end in zeros; "IGM3" where panels of words lie in halves.
uint32_t magic_of(const GemmOps& ops) {
  if (ops.grouped) return 0x334d4749;
  return ops.deep > 1 ? 0x324d4749 : 0x314d4749;
}

// Bytes of a panel's weights, the zeros behind them included.
int64_t weight_bytes(int64_t steps, int64_t width, const GemmOps& ops) {
  return (steps + ops.deep - 1) / ops.deep * ops.deep * width * 4;
}

int64_t aligned(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Positions of all steps, in the order in which the bytes lie.
std::vector<int32_t> positions_of(const GemmWeights& w) {
  const int32_t run = w.joined ? w.kernel_w * w.in : w.in;
  const int32_t runs = w.kernel_h * w.kernel_w * w.in / run;
  std::vector<int32_t> positions;
  for (int32_t r = 0; r < runs; ++r) {
    for (int32_t k = 0; k < run; k += 4) positions.push_back(r * run + k);
  }
  return positions;
}

// The weights of one step for the channels of a panel; 0 beyond the run and beyond the channels.
PackStep step_at(const GemmWeights& w, const int8_t* weights, int32_t position, const PanelCut& cut,
                 int32_t first) {
  const int32_t run = w.joined ? w.kernel_w * w.in : w.in;
  const int32_t window = w.kernel_h * w.kernel_w * w.in;
  const int32_t left = run - position % run;
  PackStep step{position, std::vector<int8_t>(static_cast<size_t>(cut.width) * 4, 0)};
  for (int32_t c = 0; c < cut.channels; ++c) {
    const int8_t* const from = weights + int64_t{first + cut.channel + c} * window + position;
    std::memcpy(&step.weights[static_cast<size_t>(c) * 4], from, static_cast<size_t>(left < 4 ? left : 4));
  }
  return step;
}

// Of [width][4] weights: those 0 and 2 of each channel, then those 1 and 3.
void put_in_halves(PackStep& step) {
  const std::vector<int8_t> from = step.weights;
  const size_t half = from.size() / 2;
  for (size_t i = 0; i < from.size(); ++i) step.weights[i % 2 * half + i / 2] = from[i];
}

void check_shape(const GemmWeights& w) {
  const int32_t most = 1 << 24;
  for (const int32_t n : {w.out, w.kernel_h, w.kernel_w, w.in, w.groups}) {
    demand(n >= 1 && n <= most, "a size of the weights is out of range");
  }
  demand(w.out % w.groups == 0, "groups do not divide the output channels");
  demand(int64_t{w.kernel_h} * w.kernel_w * w.in <= most, "the window is too large");
  demand(w.high >= 0 && w.high <= 255, "bytes are 0 to 255");
  demand(!w.joined || w.groups == 1, "rows of a window have gaps where there are groups");
}

}  // namespace

std::vector<PanelCut> cut_channels(int32_t channels, int unit, int widest) {
  const int32_t vectors = (channels + unit - 1) / unit;
  const int32_t panels = (vectors + widest - 1) / widest;
  std::vector<PanelCut> cuts;
  for (int32_t p = 0; p < panels; ++p) {
    const int32_t first = vectors * p / panels * unit, end = vectors * (p + 1) / panels * unit;
    cuts.push_back({first, (end < channels ? end : channels) - first, end - first});
  }
  return cuts;
}

namespace {

// All panels, and what one row costs, in steps of words.
struct PackedPanels {
  std::vector<PackedPanel> panels;
  std::vector<int32_t> positions;
  std::vector<uint8_t> bytes;  // the weights
  double cost = 0;
};

// `high`: the largest byte that groups have to hold.
PackedPanels pack_panels(const GemmWeights& w, const int8_t* weights, const GemmOps& ops, int32_t high) {
  const std::vector<int32_t> natural = positions_of(w);
  PackedPanels found;
  if (!ops.grouped) found.positions = natural;
  found.bytes.reserve((natural.size() * (ops.grouped ? 5 : 4) + 256) * (static_cast<size_t>(w.out) + 64));
  for (int32_t group = 0; group < w.groups; ++group) {
    const int32_t first = w.out / w.groups * group;
    for (const PanelCut& cut : cut_channels(w.out / w.groups, ops.unit, ops.widest)) {
      PackedPanel panel{};
      std::vector<PackStep> steps;
      for (const int32_t position : natural) steps.push_back(step_at(w, weights, position, cut, first));
      panel.counts[0] = static_cast<int32_t>(steps.size());
      if (ops.grouped) {
        GroupedSteps grouped = group_steps(steps, high);
        steps = std::move(grouped.steps);
        std::copy(std::begin(grouped.counts), std::end(grouped.counts), panel.counts);
        if (is_words(panel)) std::for_each(steps.begin(), steps.end(), put_in_halves);
        found.cost += grouped.cost * cut.width;
        panel.positions = static_cast<int32_t>(found.positions.size());
        for (const PackStep& s : steps) found.positions.push_back(s.position);
      }
      panel.weights = static_cast<int64_t>(found.bytes.size());
      panel.steps = static_cast<int32_t>(steps.size());
      panel.channel = first + cut.channel;
      panel.channels = cut.channels;
      panel.width = cut.width;
      panel.group = group;
      for (const PackStep& s : steps) {
        found.bytes.insert(found.bytes.end(), s.weights.begin(), s.weights.end());
      }
      const int64_t end = panel.weights + weight_bytes(panel.steps, cut.width, ops);
      found.bytes.resize(static_cast<size_t>(aligned(end)), 0);
      found.panels.push_back(panel);
    }
  }
  return found;
}

double cost_of_outliers(const GemmWeights& w) {
  const int32_t run = w.joined ? w.kernel_w * w.in : w.in;
  const double runs = double{1} * w.kernel_h * w.kernel_w * w.in / run, steps = (run + 3) / 4;
  const double splits = runs * ((run + 31) / 32) * w.groups;
  return kOfSplit * splits + w.out * (kOfOutliers * runs * steps + kOfOutlierRow);
}

// Panels that are grouped for inliers, where they and the outliers cost less.
bool pack_for_inliers(const GemmWeights& w, const int8_t* weights, const GemmOps& ops, PackedPanels& all) {
  if (ops.split == nullptr || w.high < kInliers) return false;
  PackedPanels inliers = pack_panels(w, weights, ops, kInliers - 1);
  const auto words = [](const PackedPanel& p) { return is_words(p); };
  if (std::any_of(inliers.panels.begin(), inliers.panels.end(), words)) return false;
  if (all.cost <= inliers.cost + cost_of_outliers(w)) return false;
  all = std::move(inliers);
  return true;
}

}  // namespace

std::vector<uint8_t> pack_gemm(const GemmWeights& w, const int8_t* weights, const GemmOps& ops) {
  check_shape(w);
  PackedPanels all = pack_panels(w, weights, ops, w.high);
  int32_t grouped = ops.grouped ? kGroupedForAll : 0;
  if (ops.grouped && pack_for_inliers(w, weights, ops, all)) grouped = kGroupedForInliers;
  std::vector<uint8_t>& bytes = all.bytes;  // in the end with what stands before them: one copy of all
  PackedHeader header{};
  header = {magic_of(ops),
            ops.unit,
            grouped,
            w.out,
            w.kernel_h,
            w.kernel_w,
            w.in,
            w.groups,
            w.joined,
            w.high,
            static_cast<int32_t>(all.panels.size()),
            static_cast<int32_t>(all.positions.size()),
            0,
            0};
  const size_t panel_bytes = all.panels.size() * sizeof(PackedPanel);
  const size_t position_bytes = all.positions.size() * sizeof(int32_t);
  header.weights = aligned(static_cast<int64_t>(sizeof header + panel_bytes + position_bytes));
  header.bytes = header.weights + static_cast<int64_t>(bytes.size());
  std::vector<uint8_t> head(static_cast<size_t>(header.weights), 0);
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, all.panels.data(), panel_bytes);
  std::memcpy(head.data() + sizeof header + panel_bytes, all.positions.data(), position_bytes);
  bytes.insert(bytes.begin(), head.begin(), head.end());
  return std::move(bytes);
}

namespace {

void check_header(const PackedHeader& h, size_t size, const GemmOps& ops) {
  demand(h.magic == magic_of(ops), "not packed weights");
  const bool inliers = h.grouped == kGroupedForInliers && ops.split != nullptr && h.high >= kInliers;
  const bool all = h.grouped == (ops.grouped ? kGroupedForAll : 0);
  demand(h.unit == ops.unit && (all || inliers), "weights are packed for another kernel");
  demand(h.joined == 0 || h.joined == 1, "packed weights are damaged");
  check_shape({h.out, h.kernel_h, h.kernel_w, h.in, h.groups, h.joined != 0, h.high});
  const int64_t head = sizeof h + int64_t{h.panels} * sizeof(PackedPanel) + int64_t{h.positions} * 4;
  demand(h.panels >= 1 && h.positions >= 1 && h.weights >= head, "packed weights are damaged");
  demand(h.bytes == static_cast<int64_t>(size) && h.weights <= h.bytes, "packed weights are cut off");
}

// Returns the number of steps in the groups of a panel, or -1.
int64_t steps_in_groups(const PackedPanel& p) {
  int64_t steps = 0;
  for (int size = 1; size <= kMostGroup; ++size) {
    if (p.counts[size - 1] < 0) return -1;
    steps += int64_t{p.counts[size - 1]} * size;
  }
  return steps;
}

void check_panel(const PackedHeader& h, const PackedPanel& p, int32_t channel, const GemmOps& ops) {
  const int32_t share = h.out / h.groups;
  const bool whole = p.width >= h.unit && p.width <= h.unit * ops.widest && p.width % h.unit == 0;
  demand(whole && p.channels >= 1 && p.channels <= p.width, "a panel's width is damaged");
  const bool in_order =
      p.channel == channel && p.group == p.channel / share && p.channels <= share - p.channel % share;
  demand(in_order, "panels do not follow one another");
  demand(p.steps >= 1 && p.positions >= 0 && p.steps <= h.positions - p.positions,
         "a panel's steps are damaged");
  const bool shared = p.positions == 0 && p.steps == h.positions;
  demand(h.grouped != 0 || shared, "a panel's steps are damaged");
  const bool counted = steps_in_groups(p) == p.steps && (h.grouped != 0 || p.counts[0] == p.steps);
  demand(counted || (h.grouped != 0 && is_words(p)), "a panel's groups are damaged");
  const int64_t room = h.bytes - h.weights, bytes = weight_bytes(p.steps, p.width, ops);
  demand(p.weights >= 0 && p.weights <= room && bytes <= room - p.weights, "a panel's weights are cut off");
}

// All panels of words read the same row.
void check_words(const Packed& found) {
  const std::vector<int32_t> natural = window_steps(found.header);
  for (const PackedPanel& p : found.panels) {
    if (!is_words(p)) continue;
    const auto first = found.positions.begin() + p.positions;
    demand(std::equal(first, first + p.steps, natural.begin(), natural.end()), "a panel's words are damaged");
  }
}

// Every panel has each step of the window once.
void check_inliers(const Packed& found) {
  const std::vector<int32_t> natural = window_steps(found.header);
  for (const PackedPanel& p : found.panels) {
    const auto first = found.positions.begin() + p.positions;
    std::vector<int32_t> own(first, first + p.steps);
    std::sort(own.begin(), own.end());
    demand(!is_words(p) && own == natural, "a panel's steps are damaged");
  }
}

}  // namespace

bool is_words(const PackedPanel& panel) { return steps_in_groups(panel) == 0; }

std::vector<int32_t> window_steps(const PackedHeader& h) {
  return positions_of({h.out, h.kernel_h, h.kernel_w, h.in, h.groups, h.joined != 0, h.high});
}

Packed read_packed(const uint8_t* bytes, size_t size, const GemmOps& ops) {
  Packed found{};
  PackedHeader& h = found.header;
  demand(size >= sizeof h, "packed weights are cut off");
  std::memcpy(&h, bytes, sizeof h);
  check_header(h, size, ops);
  found.panels.resize(static_cast<size_t>(h.panels));
  found.positions.resize(static_cast<size_t>(h.positions));
  std::memcpy(found.panels.data(), bytes + sizeof h, found.panels.size() * sizeof(PackedPanel));
  std::memcpy(found.positions.data(), bytes + sizeof h + found.panels.size() * sizeof(PackedPanel),
              found.positions.size() * sizeof(int32_t));
  int32_t channel = 0;
  for (const PackedPanel& p : found.panels) {
    check_panel(h, p, channel, ops);
    channel += p.channels;
  }
  demand(channel == h.out, "packed weights lack channels");
  const int32_t window = h.kernel_h * h.kernel_w * h.in;
  for (const int32_t p : found.positions) {
    demand(p >= 0 && p < window, "a step lies outside the window");
  }
  if (h.grouped == kGroupedForAll) check_words(found);
  if (h.grouped == kGroupedForInliers) check_inliers(found);
  found.weights = reinterpret_cast<const int8_t*>(bytes + h.weights);
  return found;
}

}  // namespace intact
