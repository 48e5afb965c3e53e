#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/nn/quantize.h>
#include <tandem/ops/quantized.h>

#include <map>
#include <set>

#include "ir/base/error.h"
#include "runtime/nn/tensor_fields.h"
#include "runtime/trace/trace.h"

namespace tandem::nn::fields {
namespace {

using structure::Field;
using structure::FieldKind;
using structure::Fields;

[[noreturn]] void refuse(Errc code, const std::string& path, const std::string& problem) {
  ir::fail(code, fmt::format("quantize: layer \"{}\" {}", path, problem));
}

struct Layer {
  std::string path;
  Linear* linear;
};

/// Each once.
std::vector<Layer> layers_of(const Fields& fields) {
  std::vector<Layer> layers;
  std::set<const void*> seen;
  for (const Field& field : fields)
    if (field.kind == FieldKind::Module && *field.type == typeid(Linear) &&
        seen.insert(field.value).second)
      layers.push_back({field.path, static_cast<Linear*>(field.value)});
  return layers;
}

QuantizedInt8 quantized(const Layer& layer) {
  const Tensor& weight = layer.linear->weight;
  if (!weight.defined())
    refuse(Errc::Argument, layer.path,
           "has no weight of its own; expected one that no parametrization computes "
           "(remove_parametrizations)");
  runtime::require_real(weight, fmt::format("quantize: the weight of layer \"{}\"", layer.path));
  if (!ir::is_floating(weight.dtype()))
    refuse(Errc::DType, layer.path,
           fmt::format("has a weight of {}; expected a floating dtype", ir::name(weight.dtype())));
  QuantizedInt8 made = quantize_int8(weight);
  if (all(isfinite(made.scale)).item() == 0)
    refuse(Errc::Argument, layer.path, "has a weight with NaN or infinities; expected numbers");
  return made;
}

}  // namespace

void quantize(const Fields& fields, const QuantizeOptions& options) {
  if (runtime::Trace::current() != nullptr)
    ir::fail(Errc::Trace,
             "quantize: a module is changed inside a trace, which later calls could not replay; "
             "expected it before");
  const NoGrad no_grad;
  const std::vector<Layer> layers = layers_of(fields);
  std::map<const void*, QuantizedInt8> made;  // by weight
  for (const Layer& layer : layers) {
    const void* weight = layer.linear->weight.impl().get();
    if (!layer.linear->scale.defined() && !made.contains(weight))
      made.emplace(weight, quantized(layer));
  }
  for (const Layer& layer : layers) {
    Linear& linear = *layer.linear;
    linear.dynamic = options.dynamic;
    const auto found = made.find(linear.weight.impl().get());
    if (found == made.end()) continue;
    linear.weight = found->second.values;
    linear.scale = found->second.scale;
  }
}

}  // namespace tandem::nn::fields
