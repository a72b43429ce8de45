#include <cstring>

#include "base/check.h"
#include "kernels/gemm/packed.h"
#include "kernels/winograd/packed.h"

namespace intact {
namespace {

constexpr uint32_t kMagic = 0x31474e57;  // "WNG1"
constexpr int kTaps = 9;
constexpr int32_t kMostChannels = 1 << 14;

bool sane(int32_t out, int32_t in, int32_t high) {
  const bool channels = in >= kWinogradChannels && in % kWinogradChannels == 0 && in <= kMostChannels;
  return channels && out >= 1 && out <= kMostChannels && high >= 0 && high <= 255;
}

int64_t taps_bytes(int32_t in, int32_t width) { return int64_t{kTaps} * in * width; }

void pack_panel(const WinogradPanel& panel, int32_t in, const int8_t* weights, int8_t* to) {
  for (int32_t c = 0; c < panel.channels; ++c) {
    const int8_t* from = weights + int64_t{panel.channel + c} * kTaps * in;
    for (int tap = 0; tap < kTaps; ++tap) {
      for (int32_t k = 0; k < in; ++k) {
        to[((int64_t{k / 2} * kTaps + tap) * panel.width + c) * 2 + k % 2] = *from++;
      }
    }
  }
}

// The panels of all output channels, without weights; `bytes` receives what these need behind the header.
std::vector<WinogradPanel> panels_of(int32_t out, int32_t in, const WinogradOps& ops, int64_t& bytes) {
  std::vector<WinogradPanel> panels;
  bytes = 0;
  for (const PanelCut& cut : cut_channels(out, ops.gemm->unit, ops.widest)) {
    panels.push_back({nullptr, cut.channel, cut.channels, cut.width});
    bytes += taps_bytes(in, cut.width);
  }
  return panels;
}

}  // namespace

bool winograd_fits(int32_t out, int32_t in, int32_t high, const int8_t* weights) {
  if (!sane(out, in, high)) return false;
  for (int32_t c = 0; c < out; ++c) {
    int64_t positive = 0, negative = 0;
    for (int32_t k = 0; k < kTaps * in; ++k, ++weights) (*weights > 0 ? positive : negative) += *weights;
    if (positive * high > kWinogradMost || -negative * high > kWinogradMost) return false;
  }
  return true;
}

std::vector<uint8_t> pack_winograd(int32_t out, int32_t in, int32_t high, const int8_t* weights,
                                   const WinogradOps& ops) {
  demand(winograd_fits(out, in, high, weights), "these weights do not fit Winograd's bounds");
  WinogradHeader header{kMagic, ops.gemm->unit, ops.widest, out, in, high, 0, {}};
  const std::vector<WinogradPanel> panels = panels_of(out, in, ops, header.bytes);
  header.bytes += static_cast<int64_t>(sizeof header);
  std::vector<uint8_t> bytes(static_cast<size_t>(header.bytes), 0);
  std::memcpy(bytes.data(), &header, sizeof header);
  uint8_t* at = bytes.data() + sizeof header;
  for (const WinogradPanel& panel : panels) {
    pack_panel(panel, in, weights, reinterpret_cast<int8_t*>(at));
    at += taps_bytes(in, panel.width);
  }
  return bytes;
}

WinogradPacked read_winograd(const uint8_t* bytes, size_t size, const WinogradOps& ops) {
  WinogradPacked found{};
  WinogradHeader& h = found.header;
  demand(size >= sizeof h, "packed weights are cut off");
  std::memcpy(&h, bytes, sizeof h);
  demand(h.magic == kMagic, "not packed weights of Winograd's form");
  demand(h.unit == ops.gemm->unit && h.widest == ops.widest, "weights are packed for another kernel");
  demand(sane(h.out, h.in, h.high), "packed weights are damaged");
  int64_t needed = 0;
  found.panels = panels_of(h.out, h.in, ops, needed);
  needed += static_cast<int64_t>(sizeof h);
  demand(h.bytes == needed && needed == static_cast<int64_t>(size), "packed weights are cut off");
  const uint8_t* at = bytes + sizeof h;
  for (WinogradPanel& panel : found.panels) {
    panel.taps = reinterpret_cast<const int8_t*>(at);
    at += taps_bytes(h.in, panel.width);
  }
  return found;
}

}  // namespace intact
