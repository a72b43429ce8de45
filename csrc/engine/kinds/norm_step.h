// What a LayerNorm is, alone and together with the step that makes codes of it.
#pragma once

#include "engine/kinds/fusible.h"
#include "steps/layer_norm.h"

namespace intact::engine {

LayerNormSpec norm_spec(const LayerNorm& step, Binding& binding);

}  // namespace intact::engine
