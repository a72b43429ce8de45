// AMX for machines without it: every tile instruction is an illegal one there, and the signal's handler does
// what Intel's manual says of it (Software Developer's Manual, volume 2) before it goes on behind it. So the
// code under test is what the compiler made for the real thing. Linux, one thread.
//
// Whatever the manual makes an error stays one here: the program ends with SIGILL.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tiles {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

struct Shapes {  // as LDTILECFG reads them
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(Shapes) == 64);

struct State {
  Shapes shapes;
  uint8_t data[kTiles][kRows][kRowBytes];
  long products;  // that were executed
};
inline State state;

inline bool load_shapes(const void* from) {
  Shapes s;
  std::memcpy(&s, from, sizeof s);
  if (s.palette > 1) return false;
  for (const uint8_t byte : s.reserved) {
    if (byte != 0) return false;
  }
  for (int i = 0; i < 16; ++i) {
    if (i >= kTiles && (s.row_bytes[i] != 0 || s.rows[i] != 0)) return false;
    if (s.row_bytes[i] > kRowBytes || s.rows[i] > kRows) return false;
    if (s.palette == 1 && (s.row_bytes[i] == 0) != (s.rows[i] == 0)) return false;
  }
  std::memset(&state.shapes, 0, sizeof(Shapes));
  if (s.palette == 1) state.shapes = s;
  std::memset(state.data, 0, sizeof state.data);
  return true;
}

inline bool usable(int tile) {
  return state.shapes.palette == 1 && tile < kTiles && state.shapes.rows[tile] != 0;
}

// Byte by byte, so that a sanitizer sees what is read.
inline bool load(int tile, const uint8_t* from, int64_t stride) {
  if (!usable(tile)) return false;
  std::memset(state.data[tile], 0, sizeof state.data[tile]);
  for (int r = 0; r < state.shapes.rows[tile]; ++r) {
    for (int i = 0; i < state.shapes.row_bytes[tile]; ++i) state.data[tile][r][i] = from[r * stride + i];
  }
  return true;
}

inline bool store(int tile, uint8_t* to, int64_t stride) {
  if (!usable(tile)) return false;
  for (int r = 0; r < state.shapes.rows[tile]; ++r) {
    for (int i = 0; i < state.shapes.row_bytes[tile]; ++i) to[r * stride + i] = state.data[tile][r][i];
  }
  return true;
}

inline bool zero(int tile) {
  if (!usable(tile)) return false;
  std::memset(state.data[tile], 0, sizeof state.data[tile]);
  return true;
}

// TDPBUSD: unsigned bytes of `a` by signed ones of `b`, fours of them summed into 32 bits.
inline bool multiply(int c, int a, int b) {
  if (!usable(c) || !usable(a) || !usable(b) || c == a || c == b || a == b) return false;
  const Shapes& s = state.shapes;
  const bool fours = s.row_bytes[c] % 4 == 0 && s.row_bytes[a] % 4 == 0 && s.row_bytes[b] % 4 == 0;
  if (!fours || s.rows[a] != s.rows[c] || s.row_bytes[b] != s.row_bytes[c]) return false;
  if (s.row_bytes[a] / 4 != s.rows[b]) return false;
  for (int m = 0; m < s.rows[c]; ++m) {
    for (int k = 0; k < s.rows[b]; ++k) {
      for (int n = 0; n < s.row_bytes[c] / 4; ++n) {
        uint32_t sum;
        std::memcpy(&sum, &state.data[c][m][4 * n], 4);
        for (int i = 0; i < 4; ++i) {
          sum += static_cast<uint32_t>(int32_t{state.data[a][m][4 * k + i]} *
                                       static_cast<int8_t>(state.data[b][k][4 * n + i]));
        }
        std::memcpy(&state.data[c][m][4 * n], &sum, 4);
      }
    }
  }
  ++state.products;
  return true;
}

// One instruction with a VEX prefix of 3 bytes from the map 0F 38, as it lies in memory.
class Instruction {
 public:
  Instruction(const uint8_t* code, const greg_t* registers) : registers_(registers) {
    known_ = code[0] == 0xc4 && (code[1] & 0x1f) == 2 && (code[2] & 0x84) == 0;  // W and L are 0
    if (!known_) return;
    prefix = code[2] & 3;
    opcode = code[3];
    third = ~(code[2] >> 3) & 15;
    const bool more_reg = (code[1] & 0x80) == 0, more_index = (code[1] & 0x40) == 0,
               more_base = (code[1] & 0x20) == 0;
    const uint8_t form = code[4];
    first = (form >> 3 & 7) | (more_reg ? 8 : 0);
    second = (form & 7) | (more_base ? 8 : 0);
    in_memory = form >> 6 != 3;
    const uint8_t* next = code + 5;
    if (in_memory) next = decode_address(form, next, more_index, more_base);
    end = next;
    if (relative_) address += reinterpret_cast<int64_t>(end);
  }

  bool known() const { return known_; }

  int prefix, opcode;
  int first, second, third;  // registers, as their manual counts them: reg, r/m, vvvv
  bool in_memory, indexed = false;
  int64_t address = 0, stride = 0;  // without the index; what the index register says
  const uint8_t* end = nullptr;

 private:
  int64_t value(int number) const {
    constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[kPlaces[number]];
  }

  const uint8_t* decode_address(uint8_t form, const uint8_t* next, bool more_index, bool more_base) {
    const int mode = form >> 6;
    int base = form & 7;
    indexed = base == 4;
    if (indexed) {
      const int index = (*next >> 3 & 7) | (more_index ? 8 : 0);
      stride = index == 4 ? 0 : value(index) * (1 << (*next >> 6));
      base = *next++ & 7;
    }
    const bool absolute = mode == 0 && base == 5;
    relative_ = absolute && !indexed;
    if (!absolute) address = value(base | (more_base ? 8 : 0));
    if (mode == 1) return address += static_cast<int8_t>(*next), next + 1;
    if (mode == 0 && !absolute) return next;
    int32_t displacement;
    std::memcpy(&displacement, next, 4);
    address += displacement;
    return next + 4;
  }

  const greg_t* registers_;
  bool known_, relative_ = false;
};

inline bool execute(const Instruction& i) {
  enum { kNone, k66, kF3, kF2 };
  auto* const memory = reinterpret_cast<uint8_t*>(i.address);
  switch (i.opcode) {
    case 0x49:
      if (i.prefix == kNone && i.in_memory) return load_shapes(memory + i.stride);
      if (i.prefix == kNone && i.first == 0 && i.second == 0) {
        std::memset(&state, 0, offsetof(State, products));
        return true;
      }
      return i.prefix == kF2 && !i.in_memory && i.second == 0 && zero(i.first);
    case 0x4b:
      if (!i.indexed) return false;
      if (i.prefix == kF2) return load(i.first, memory, i.stride);
      return i.prefix == kF3 && store(i.first, memory, i.stride);
    case 0x5e: return i.prefix == k66 && !i.in_memory && multiply(i.first, i.second, i.third);
    default: return false;
  }
}

inline void on_illegal_instruction(int, siginfo_t*, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Instruction found(reinterpret_cast<const uint8_t*>(registers[REG_RIP]), registers);
  if (found.known() && execute(found)) {
    registers[REG_RIP] = reinterpret_cast<greg_t>(found.end);
  } else {
    signal(SIGILL, SIG_DFL);  // meets it again
  }
}

inline void emulate() {
  struct sigaction action{};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, nullptr);
}

}  // namespace tiles
