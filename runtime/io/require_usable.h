// What is written to a file must be there.
#ifndef TANDEM_RUNTIME_IO_REQUIRE_USABLE_H
#define TANDEM_RUNTIME_IO_REQUIRE_USABLE_H

#include <tandem/tensor.h>

#include <string>
#include <string_view>

namespace tandem::runtime {

/// Error unless there are elements to read or write.
void require_usable(std::string_view function, const std::string& name, const Tensor& tensor);

/// The bytes of a contiguous tensor's elements.
std::string_view bytes_of(const Tensor& tensor);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_REQUIRE_USABLE_H
