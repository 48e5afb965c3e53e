// Structures as the lists of tensors that bodies take and give.
#include <fmt/format.h>
#include <tandem/control_flow.h>

#include "ir/base/error.h"

namespace tandem::control {

void require_same_shape(const StructureShape& a, const StructureShape& b, const char* who) {
  if (a.tokens == b.tokens && a.defined == b.defined) return;
  ir::fail(
      Errc::Argument,
      fmt::format("{}: bodies give structures that differ (in sizes of lists, numbers, strings, "
                  "or which tensors are there); expected the same of each",
                  who));
}

void TakeTensors::operator()(Tensor& t, const std::string&) {
  shape.defined.push_back(t.defined());
  if (t.defined()) tensors.push_back(std::exchange(t, Tensor()));
}
void TakeTensors::operator()(Scalar& s, const std::string&) { tensors.push_back(s.tensor()); }
void TakeTensors::operator()(const std::string& s, const std::string&) {
  shape.tokens.push_back(s.size());
  for (const char c : s) shape.tokens.push_back(static_cast<unsigned char>(c));
}
void TakeTensors::count(uint64_t n, const std::string&) { shape.tokens.push_back(n); }

void PutTensors::operator()(Tensor& t, const std::string&) {
  if (*defined++ != 0) t = *next++;
}
void PutTensors::operator()(Scalar& s, const std::string&) { s = Scalar(*next++); }

}  // namespace tandem::control
