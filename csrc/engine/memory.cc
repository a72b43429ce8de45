#include "engine/memory.h"

#include <algorithm>

#include "runtime/memory.h"
#include "runtime/step.h"

namespace intact::engine {
namespace {

constexpr int kNone = -1;

// Which tensor's memory a tensor has, and when that memory is taken.
class Lifetimes {
 public:
  Lifetimes(const Plan& plan, const std::vector<bool>& outer, const Layout& layout, const Held& held,
            const std::vector<MicroBatches>& repeated, bool is_whole)
      : plan_(plan),
        layout_(layout),
        outer_(outer),
        is_whole_(is_whole),
        last_(static_cast<int>(plan.steps.size())),
        dies_(plan.tensors.size(), kNone),
        owners(plan.tensors.size(), kNone),
        spans(plan.tensors.size()) {
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      for (const int v : plan.steps[i]->reads) {
        // What is held is read by all runs, and by other steps that are held while it is made.
        if (plan.is_tensor(v)) {
          int& dies = dies_[at(root(v))];
          dies = std::max(dies, held.tensors[at(v)] && !held.steps[i] ? last_ : static_cast<int>(i));
        }
      }
    }
    for (const int v : plan.outputs) dies_[at(root(v))] = last_;
    for (const int v : plan.inputs) {
      // Copied in before the first step, so that nothing of that step may lie there.
      if (layout.staged[at(v)]) own(v, -1, is_whole ? last_ : dies_[at(v)]);
    }
    is_cut_.assign(plan.tensors.size(), false);
    for (const MicroBatches& steps : repeated) {
      for (size_t i = steps.begin; i < steps.end; ++i) {
        for (const int v : plan.steps[i]->writes) is_cut_[at(v)] = !steps.has(v);
      }
    }
    for (size_t i = 0; i < plan.steps.size(); ++i) add_step(static_cast<int>(i));
  }

 private:
  static size_t at(int v) { return static_cast<size_t>(v); }
  int root(int v) const { return layout_.roots[at(v)]; }
  bool is_outside(int v) const { return !layout_.staged[at(v)] && outer_[at(v)]; }
  void own(int v, int begin, int end) {
    owners[at(v)] = v;
    spans[at(v)] = {layout_.frames[at(v)].nbytes, begin, end, true};
  }

  void add_step(int index) {
    const PlanStep& step = *plan_.steps[at(index)];
    for (const int v : step.writes) {
      const int whole = root(v);
      if (is_outside(whole)) continue;
      const int end = is_whole_ ? last_ : dies_[at(whole)] == kNone ? index : dies_[at(whole)];
      // Parts of a concatenation are written straight into the whole, long before its own step: its memory is
      // taken from the first of them on.
      if (owners[at(whole)] == kNone && whole != v) own(whole, index, end);
      if (whole == v && owners[at(v)] == kNone) {
        // Images of a tensor that is cut share halos, which the next time reads.
        const int owner = is_cut_[at(v)] || is_whole_ ? v : overwritten(step, v, index);
        if (owner == v) own(v, index, end);
        owners[at(v)] = owner;
      } else {
        owners[at(v)] = owners[at(whole)];
      }
      Span& span = spans[at(owners[at(v)])];
      span.end = std::max(span.end, end);
    }
  }

  // The owner of the memory that y can take over from what the step reads; y where there is none. A step that
  // may write over an input reads each element of it before it writes the one at that place: x has to lie
  // exactly as y does. What a step reads twice, it might read in another way too, and too late.
  int overwritten(const PlanStep& step, int y, int index) const {
    for (const int x : step.in_place) {
      if (!plan_.is_tensor(x)) continue;
      const int owner = owners[at(x)];
      if (owner == kNone || spans[at(owner)].end != index) continue;
      const auto same = [&](int v) { return plan_.is_tensor(v) && owners[at(v)] == owner; };
      const bool once = std::count_if(step.reads.begin(), step.reads.end(), same) == 1;
      if (once && layout_.frames[at(x)] == layout_.frames[at(y)]) return owner;
    }
    return y;
  }

  const Plan& plan_;
  const Layout& layout_;
  const std::vector<bool>& outer_;  // inputs and outputs
  const bool is_whole_;
  const int last_;
  std::vector<int> dies_;  // the last step that reads a tensor's memory; outputs are read behind all steps
  std::vector<bool> is_cut_;  // written image by image, and whole outside

 public:
  std::vector<int> owners;
  std::vector<Span> spans;
};

// What comes or goes among repeated steps, and is not made anew each time, is there all the while.
void outlast(const MicroBatches& steps, std::vector<Span>& spans) {
  const int begin = static_cast<int>(steps.begin), end = static_cast<int>(steps.end);
  for (Span& span : spans) {
    if (begin <= span.begin && span.begin < end) span.begin = begin;
    if (begin <= span.end && span.end < end) span.end = end - 1;
  }
}

// Spans that have a place. Those of a period of steps are listed apart: most spans are short, and meet none
// but a few of the many spans of a long plan.
class PlacedSpans {
 public:
  struct Placed {
    int64_t begin, end;  // bytes
    int first, last;     // steps
  };

  explicit PlacedSpans(const std::vector<Span>& spans) {
    int last = 0;
    for (const Span& span : spans) last = std::max(last, span.end);
    periods_.resize(static_cast<size_t>(period_of(last)) + 1);
  }

  // The lowest offset of so many bytes that are free in all steps of a span.
  int64_t find_gap(const Span& span, int64_t size) const {
    const bool is_short = period_of(span.begin) == period_of(span.end);
    int64_t offset = 0;
    for (const Placed& other : is_short ? periods_[static_cast<size_t>(period_of(span.end))] : all_) {
      if (other.begin - offset >= size) break;  // nor does any behind it begin earlier
      if (other.first <= span.end && other.last >= span.begin) offset = std::max(offset, other.end);
    }
    return offset;
  }
  void add(const Placed& placed) {
    insert(placed, all_);
    for (int p = period_of(placed.first); p <= period_of(placed.last); ++p)
      insert(placed, periods_[static_cast<size_t>(p)]);
  }

 private:
  using List = std::vector<Placed>;  // by their beginnings

  static int period_of(int step) { return std::max(step, 0) / kSteps; }  // inputs are there before the first
  static void insert(const Placed& placed, List& list) {
    list.insert(std::upper_bound(list.begin(), list.end(), placed,
                                 [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                placed);
  }

  static constexpr int kSteps = 32;  // of a period
  List all_;
  std::vector<List> periods_;
};

}  // namespace

int64_t place_spans(const std::vector<Span>& spans, std::vector<int64_t>& offsets) {
  std::vector<size_t> order;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].is_used) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return spans[a].nbytes > spans[b].nbytes; });
  PlacedSpans placed(spans);
  int64_t most = 0;
  for (const size_t i : order) {
    const int64_t size = align64(spans[i].nbytes + static_cast<int64_t>(kSlack));
    const int64_t offset = placed.find_gap(spans[i], size);
    offsets[i] = offset;
    placed.add({offset, offset + size, spans[i].begin, spans[i].end});
    most = std::max(most, offset + size);
  }
  return most;
}

ArenaPlan plan_memory(const Plan& plan, const LayoutPlan& known, const Layout& layout, const Held& held,
                      const std::vector<MicroBatches>& repeated, int threads, bool is_whole) {
  const Lifetimes lifetimes(plan, known.outer, layout, held, repeated, is_whole);
  const size_t count = plan.tensors.size();
  ArenaPlan found;
  std::vector<Span> spans = lifetimes.spans;
  std::vector<int64_t> own(count + repeated.size(), -1);
  if (held.has_some) {
    std::vector<Span> kept(count);
    for (size_t v = 0; v < count; ++v) {
      if (!held.tensors[v]) continue;
      kept[v] = spans[v];
      spans[v].is_used = false;
    }
    found.held_nbytes = place_spans(kept, own);
  }
  for (size_t i = 0; i < repeated.size(); ++i) {
    const MicroBatches& steps = repeated[i];
    std::vector<Span> inner(count);
    for (size_t v = 0; v < count; ++v) {
      if (!steps.inner[v]) continue;
      inner[v] = spans[v];
      spans[v].is_used = false;
    }
    const int64_t nbytes = place_spans(inner, own);
    found.threads.emplace_back(0, nbytes);
    outlast(steps, spans);
    spans.push_back(
        {product(nbytes, threads), static_cast<int>(steps.begin), static_cast<int>(steps.end) - 1, true});
  }
  found.nbytes = place_spans(spans, own);
  for (size_t i = 0; i < repeated.size(); ++i) found.threads[i].first = own[count + i];
  found.offsets.assign(count, -1);
  for (size_t v = 0; v < count; ++v) {
    const int owner = lifetimes.owners[v];
    if (owner != kNone) found.offsets[v] = own[static_cast<size_t>(owner)];
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].is_used) found.taken.emplace_back(own[i], spans[i].nbytes);
  }
  return found;
}

}  // namespace intact::engine
