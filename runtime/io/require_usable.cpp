#include "runtime/io/require_usable.h"

#include <fmt/format.h>

#include "ir/base/error.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

void require_usable(std::string_view function, const std::string& name, const Tensor& tensor) {
  if (!tensor.defined())
    ir::fail(Errc::Argument,
             fmt::format("{}: tensor \"{}\" is undefined; expected a defined one", function, name));
  require_real(tensor, fmt::format("{}: tensor \"{}\"", function, name));
}

std::string_view bytes_of(const Tensor& tensor) {
  const int64_t bytes = ir::size_in_bytes(tensor.impl()->type());
  return {static_cast<const char*>(tensor.impl()->data()), static_cast<size_t>(bytes)};
}

}  // namespace tandem::runtime
