#include <fmt/format.h>
#include <tandem/io.h>
#include <tandem/ops.h>

#include <map>
#include <string_view>

#include "ir/base/error.h"
#include "runtime/io/require_usable.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem {

void runtime::require_usable(std::string_view function, const std::string& name,
                             const Tensor& tensor) {
  if (!tensor.defined())
    ir::fail(Errc::Argument,
             fmt::format("{}: tensor \"{}\" is undefined; expected a defined one", function, name));
  runtime::require_real(tensor, fmt::format("{}: tensor \"{}\"", function, name));
}

std::string_view runtime::bytes_of(const Tensor& tensor) {
  const int64_t bytes = ir::size_in_bytes(tensor.impl()->type());
  return {static_cast<const char*>(tensor.impl()->data()), static_cast<size_t>(bytes)};
}

void load_into(const NamedTensors& module, const NamedTensors& file) {
  const std::map<std::string_view, Tensor> by_name(file.begin(), file.end());
  for (const auto& [name, tensor] : module) {
    runtime::require_usable("load", name, tensor);
    const auto it = by_name.find(name);
    if (it == by_name.end())
      ir::fail(Errc::File, fmt::format("load: the file has no tensor \"{}\"", name));
    runtime::require_usable("load: the file", name, it->second);
    const ir::Type expected = tensor.impl()->type(), got = it->second.impl()->type();
    if (expected != got)
      ir::fail(Errc::File, fmt::format("load: {}: expected {}, got {}", name,
                                       ir::to_string(expected), ir::to_string(got)));
  }
  if (file.size() != module.size())
    ir::fail(Errc::File, fmt::format("load: expected {} tensors, got {} in the file", module.size(),
                                     file.size()));
  const NoGrad no_grad;
  for (const auto& [name, tensor] : module) {
    const Tensor operands[] = {tensor, by_name.at(name)};
    runtime::check_writable(operands, ir::Op::copy);
  }
  for (const auto& [name, tensor] : module) tensor.copy_(by_name.at(name));
}

}  // namespace tandem
