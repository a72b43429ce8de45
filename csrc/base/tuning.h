// Constants that measurements chose: sizes of pieces of work, and thresholds between two ways. No output bit
// depends on them. Behind each group stands the command that measures what they govern: run it before and
// after a change. Constants of one instruction set's loop stand beside that loop, in its file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace intact::tuning {

// Threads: runtime/dealing.h, thread_pool.cc, balance.cc.
//   python benchmarks/engine_latency.py; python benchmarks/balance.py MODEL
namespace threads {
constexpr size_t kChunksPerThread = 8;  // of a job's items
// The time that a thread looks for the next job: at first without a pause for others, then letting them
// run.
constexpr int kEagerLooks = 1000;
constexpr auto kPatience = std::chrono::microseconds(400);
constexpr int64_t kAlike = 64;  // a difference of one part in so many is none
}  // namespace threads

// Whole tensors: csrc/tensors, csrc/calibration.
//   python benchmarks/kernels.py; python benchmarks/calib_methods.py
namespace tensors {
constexpr size_t kGrain = 1 << 16;  // elements of a thread below which waking one costs more
constexpr size_t kLongRow = 16;  // from here on a row is worth a call of its own
constexpr size_t kTile = 1024;  // parameters spread out at once
constexpr size_t kRepeated = 16384;  // a period up to here is spread out whole, to be used again
constexpr size_t kLongPeriod = 64;  // from here on stored parameters are used where they lie
constexpr size_t kColumns = 256;  // running results worth keeping apart, so that lanes fill
constexpr size_t kHistogramGrain = 1 << 17;  // elements of a thread
constexpr size_t kWays = 4;  // sub-histograms: neighbours rarely wait for each other's store
constexpr size_t kRowsAtOnce = 64;  // of moments: they stay in the first cache, where columns are few
}  // namespace tensors

// Packing of weights for grouped kernels: kernels/gemm/pack.cc, groups.cc.
//   python benchmarks/gemm.py (on one core of an AMD server kept to AVX2)
namespace packing {
constexpr size_t kOpen = 64;  // groups that are open at one time: more find little and take long
// Costs of a step, of each group in addition, and of a step of words, which is the unit.
constexpr double kOfStep = 0.45, kOfGroup = 0.42, kOfWords = 1.0;
// Costs of outliers, in steps of words: to split up to 8 steps of a row; for each channel to add them, of
// each step and each row, whose sums end in memory, those of words in registers. Measured where one byte in
// a hundred is one, as in layers of ResNets behind a Relu.
constexpr double kOfSplit = 40, kOfOutliers = 0.06, kOfOutlierRow = 4;
}  // namespace packing

// Products with block weights: steps/block_linear.cc.
//   python benchmarks/block_products.py
namespace block_products {
constexpr int64_t kMostRows = 128;  // of an item, which reads its weights once for them
constexpr int64_t kItem = 1 << 20;  // products
constexpr int64_t kLeastItems = 8;  // of a convolution: panels are cut where there are few pixels
}  // namespace block_products

// Attention to a cache: steps/cached_attention.cc.
//   python benchmarks/language.py
namespace cached_attention {
constexpr size_t kRows = 72, kFewRows = 24;  // queries of an item, about: keys are packed once for all
constexpr size_t kLeastItems = 8;  // as long as an item has kFewRows
constexpr size_t kKeys = 64;  // packed at once: with their copy they stay near the first cache
constexpr size_t kValues = 256;  // read or packed at once, where they are not multiplied where they lie
}  // namespace cached_attention

// Linear attention: steps/linear_attention.cc.
namespace linear_attention {
constexpr size_t kColumns = 64;  // of a state, which stay in the first cache: 32 KB of 128 rows
}  // namespace linear_attention

// Convolutions by vectors: steps/conv/conv_step.h, window_copies.h.
//   python benchmarks/gemm.py; python benchmarks/engine_latency.py; rows that choose: benchmarks/experts.py
namespace conv_panels {
constexpr int64_t kChunkBytes = 256 << 10;  // of weights that one item goes through: half of a small L2
constexpr int64_t kSmallestChunk = 32 << 10;
constexpr int64_t kCopiedPanels = 8;  // of a chunk, at least: every chunk copies its windows
constexpr int64_t kMostPixels = 384;  // of an item: their addresses stay in the cache
constexpr int64_t kLargeItem = 4 << 20, kSmallItem = 1 << 20;  // products
constexpr int64_t kSmallestItem = 1 << 18;  // where there are more threads than small items for them
constexpr int64_t kItemCost = 1 << 16;  // products
constexpr int64_t kCopiedBytes = 32 << 10;  // of words that windows are copied to
constexpr int64_t kStepsOfOutlier = 6;  // words are as fast where one step in so many has outliers
}  // namespace conv_panels

// Convolutions by tiles: steps/conv/conv_tiles.cc.
//   python benchmarks/gemm.py; python benchmarks/engine_latency.py (with AMX)
namespace conv_tiles {
constexpr int64_t kNearBytes = 32 << 10;  // of weights that stay in the first cache
constexpr int64_t kRangeBytes = 512 << 10;  // of inputs that stay in the second one
constexpr int64_t kKeptBytes = 512 << 10;  // of all weights of a layer that stay there too
constexpr int64_t kMostRows = 1024;  // of a range: so do their addresses
constexpr int64_t kMostAhead = 1 << 20;  // of a later step's weights
// Lines that a deep step can fetch without delaying what it loads itself: of the next chunk, and of a later
// step's weights, which must not cost more than they save.
constexpr int64_t kMostLines = 8, kMostFarLines = 1;
constexpr int64_t kGatherChannels = 64;  // whose products take as long as gathering their rows
// Lower than kGatherChannels, because discarded rows still pay for the epilogue: with 64 networks were up to
// 2% slower.
constexpr int64_t kWalkedChannels = 24;
constexpr int64_t kItemCost = 1 << 18;  // products
// Products in the time that a line takes which another core has written, and one of weights, of which some
// arrive ahead of their use.
constexpr int64_t kForeignLineCost = 1 << 15, kWeightsLineCost = 1 << 13;
constexpr int64_t kShallow = 36;  // bytes of a window for which vectors are faster
constexpr double kMostWalked = 1.4;  // rows that are summed for each one that is wanted
}  // namespace conv_tiles

// Convolutions by transformed tiles: steps/winograd.cc.
//   python benchmarks/engine_latency.py
namespace winograd {
constexpr int64_t kRoom = 1 << 20;  // bytes of what a block of tiles works on: about the cache next to a core
constexpr int64_t kMostKept = 320 << 10;  // bytes of transformed weights
constexpr int64_t kMostTiles = 50, kFewestTiles = 6;  // of a block
constexpr int64_t kItem = 2 << 20;  // products of an item
// Bytes behind each point's plane, so that planes do not meet in the same sets of a cache.
constexpr int64_t kApart = 64;
}  // namespace winograd

// Depthwise convolutions, pools, sums and tables of codes: steps/depthwise.cc, pool.cc, common/code_rows.h.
//   python benchmarks/image_steps.py
namespace images {
constexpr size_t kDepthwiseProducts = 1 << 17;  // of a piece of work
constexpr size_t kSegment = 1 << 13;  // floats: they stay in the first cache
constexpr size_t kChannels = 512;  // of a unit of work of pools
constexpr size_t kPieceTaps = 1 << 17;
constexpr size_t kCodes = 16384;  // of a piece of sums and tables
}  // namespace images

// Products of activations, and attention: steps/matmul.cc, attention.cc.
//   python benchmarks/float_steps.py
namespace products {
constexpr size_t kMatMulRows = 256;  // of a piece of work, for which b is packed anew
constexpr size_t kQueries = 128;  // of a piece of work, for which keys and values are packed anew
}  // namespace products

// Products and convolutions of floats, recurrent cells: steps/common/float_cut.h, steps/float_conv.cc,
// steps/recurrent.cc.
//   python benchmarks/float_products.py
namespace floats {
constexpr size_t kMostFloats = size_t{1} << 16;  // of the right side that an item goes through: 256 KB
constexpr size_t kSmallItem = size_t{1} << 19, kLargeItem = size_t{1} << 22;  // products
constexpr size_t kLeastRows = 48;  // of an item, where there are more: the right side is read once for them
constexpr size_t kDepth = 512;  // of a part of k
constexpr size_t kFewRows = 12;  // no more are read once: nothing to keep near
constexpr int64_t kFilterOutputs = 4, kFilterWidth = 16, kFilterStride = 8;  // most, least, most
constexpr int64_t kFilterLines = 8, kFilterReach = 1 << 14;  // of a window, at most
constexpr size_t kFilterPixels = 1 << 11;
constexpr int64_t kRecurrentRows = 12;  // that share a pass over the weights, at least: a tile's
}  // namespace floats

// Functions, norms and sums of floats: steps/common/float_rows.h, norm_step.h, binary.cc, reduce.cc.
//   python benchmarks/float_steps.py
namespace float_steps {
constexpr size_t kChunk = 4096;  // elements
constexpr size_t kShortRow = 32, kFewestShort = 4, kMostShort = kChunk / 16;  // of operands in columns
constexpr size_t kRepeatedFloats = 2048;  // a few rows of them stay in the first cache
constexpr size_t kNormPiece = 4096;  // elements, at least, of a piece of work
// Short rows, and those whose neighbours lie beside them, go in columns, if they are many. Rows that end
// within a register are slower: what is stored through a mask is waited for when it is read again (52 ns a
// row of 40 floats, 31 of 48, on Sapphire Rapids; 32 and 37 in columns).
constexpr size_t kShortNorm = 32, kShortWithin = 64, kRegister = 16, kMostColumns = 4096, kFewestRows = 8;
constexpr size_t kLeastRows = 16, kMostRows = 256;  // of a block: some registers, within the first cache
constexpr size_t kSumPiece = 1 << 16;  // elements of a piece of work
constexpr size_t kFewestSums = 16, kMostSums = 256;  // of a chunk: their lanes stay in the first cache
}  // namespace float_steps

// Elements of any type, and copies: steps/elementwise.cc, copy.cc, resize.cc, fill.cc, common/relayout.h.
//   python benchmarks/kernels.py; python benchmarks/image_steps.py
namespace moves {
constexpr size_t kChunk = 4096;  // elements
constexpr size_t kNearRows = 256;  // whose bytes stay in the first cache from column to column
constexpr size_t kTile = 16384;  // elements; what a thread is woken for
// A call for each row takes longer than a row of so few elements.
constexpr size_t kShortRow = 16, kFewRows = 8;
}  // namespace moves

// Steps along an axis, by index and by order: steps/top_k.cc, grid_sample.cc, arg_max.cc, scatter_rows.cc,
// common/indexed_copy.h, common/line_step.h.
//   python benchmarks/picks.py
namespace indexing {
constexpr size_t kPiece = 4096;  // elements of a piece of work
constexpr size_t kGatherBytes = 1 << 14;  // of a piece of work
constexpr size_t kBlock = 32;  // elements that are compared with the bound at once
constexpr size_t kGroup = 8;  // of which it is then asked which
constexpr size_t kFew = 16;  // so many are kept in order all the while
constexpr size_t kShort = 256;  // up to which comparisons sort faster than digits
constexpr size_t kPoints = 64;  // whose places are worked out together
constexpr size_t kLines = 256;  // places beside each other that go along the axis together
constexpr int64_t kLongLine = 128;  // from where on a line fills registers by itself
constexpr size_t kFewLines = 8, kRunners = 16, kTurned = 16;
}  // namespace indexing

}  // namespace intact::tuning
