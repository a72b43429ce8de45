// What ranges and the codes of weights are chosen by.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "calibration/entropy.h"
#include "calibration/rounding.h"

namespace intact {
namespace {

using Doubles = Dense<const double>;
using DoublesTo = Dense<double>;

void bind_moments(nb::module_& m) {
  m.def(
      "moments",
      [](const std::string& name, FloatsIn x, size_t groups, size_t rows, size_t columns, size_t first,
         DoublesTo sums, DoublesTo products) {
        const auto& ops = kernel<MomentsOps>(name);
        require(groups > 0 && sums.size() % groups == 0, "a sum for each column of the block");
        const size_t size = sums.size() / groups;
        require(size > 0 && size <= columns && first <= columns - size, "columns that there are");
        require(x.size() == groups * rows * columns, "sizes differ");
        require(products.size() == groups * size * size, "a product for any two columns");
        nb::gil_scoped_release release;
        moments(ops, x.data(), {groups, rows, columns, first, size}, sums.data(), products.data());
      },
      "kernel"_a, "x"_a.noconvert(), "groups"_a, "rows"_a, "columns"_a, "first"_a, "sums"_a.noconvert(),
      "products"_a.noconvert());
}

void bind_rounding(nb::module_& m) {
  m.def(
      "unit_factor",
      [](DoublesTo matrices, size_t size) {
        require(size > 0 && matrices.size() % (size * size) == 0, "square matrices");
        nb::gil_scoped_release release;
        for (size_t at = 0; at < matrices.size(); at += size * size) unit_factor(matrices.data() + at, size);
      },
      "matrices"_a.noconvert(), "size"_a);
  m.def(
      "round_together",
      [](Doubles rows, Doubles steps, Doubles factors, size_t groups, size_t size, double low, double high,
         DoublesTo points) {
        require(groups > 0 && size > 0 && factors.size() == groups * size * size, "a factor for each group");
        require(rows.size() % (groups * size) == 0, "as many rows for each group");
        require(steps.size() == rows.size() && points.size() == rows.size(), "sizes differ");
        nb::gil_scoped_release release;
        const size_t each = rows.size() / groups, count = each / size;
        for (size_t g = 0; g < groups; ++g) {
          const GridRows grid = {rows.data() + g * each, steps.data() + g * each, low, high};
          round_together(grid, factors.data() + g * size * size, count, size, points.data() + g * each);
        }
      },
      "rows"_a.noconvert(), "steps"_a.noconvert(), "factors"_a.noconvert(), "groups"_a, "size"_a, "low"_a,
      "high"_a, "points"_a.noconvert());
  m.def(
      "quadratic_forms",
      [](Doubles rows, Doubles matrices, size_t groups, size_t size, DoublesTo out) {
        require(groups > 0 && size > 0 && matrices.size() == groups * size * size, "a matrix for each group");
        require(out.size() % groups == 0 && rows.size() == out.size() * size, "a number for each row");
        nb::gil_scoped_release release;
        std::vector<double> space(size);
        const size_t count = out.size() / groups;
        for (size_t g = 0; g < groups; ++g) {
          quadratic_forms(rows.data() + g * count * size, matrices.data() + g * size * size, count, size,
                          space.data(), out.data() + g * count);
        }
      },
      "rows"_a.noconvert(), "matrices"_a.noconvert(), "groups"_a, "size"_a, "out"_a.noconvert());
}

void bind_entropy(nb::module_& m) {
  m.def(
      "entropy_divergences",
      [](Doubles counts, Doubles mass, Doubles filled, size_t levels, double sure,
         Dense<const int64_t> candidates, Doubles bounds, DoublesTo out) {
        const Bins bins = {counts.data(), mass.data(), filled.data(), counts.size()};
        require(bins.size > 0 && bins.size < size_t{1} << 32 && mass.size() == bins.size + 1 &&
                    filled.size() == bins.size + 1,
                "prefix sums of the counts");
        require(levels > 0 && levels < size_t{1} << 32 && mass.data()[bins.size] > 0, "levels, and counts");
        require(bounds.size() == candidates.size() && out.size() == candidates.size(),
                "one result per candidate");
        for (size_t i = 0; i < candidates.size(); ++i) {
          const int64_t end = candidates.data()[i];
          require(end >= 1 && end <= static_cast<int64_t>(bins.size), "numbers of bins");
        }
        nb::gil_scoped_release release;
        entropy_divergences(bins, levels, sure, candidates.data(), bounds.data(), candidates.size(),
                            out.data());
      },
      "counts"_a.noconvert(), "mass"_a.noconvert(), "filled"_a.noconvert(), "levels"_a, "sure"_a,
      "candidates"_a.noconvert(), "bounds"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace

void bind_choices(nb::module_& m) {
  bind_moments(m);
  bind_rounding(m);
  bind_entropy(m);
}

}  // namespace intact
