#include <tandem/nn/sequential.h>

#include "ir/base/error.h"

namespace tandem::nn {

AnyModule::Held::~Held() = default;

Tensor AnyModule::operator()(const Tensor& x, SourceLocation where) const {
  if (held_ == nullptr) ir::fail(Errc::Argument, "AnyModule: expected a layer, got none");
  return held_->call(x, where);
}

void AnyModule::tandem_list(structure::Fields& out, const std::string* path) const {
  if (held_ != nullptr) held_->list(out, path);
}

void AnyModule::tandem_own(structure::OwnShared& own) {
  if (held_ != nullptr) held_->own(own);
}

const std::type_info& AnyModule::tandem_type() const {
  return held_ == nullptr ? typeid(void) : held_->type();
}

void AnyModule::require_not_null(const void* layer) {
  if (layer == nullptr) ir::fail(Errc::Argument, "AnyModule: expected a layer, got a null pointer");
}

void* AnyModule::address_of(const std::type_info& type) const {
  return held_ != nullptr && held_->type() == type ? held_->address() : nullptr;
}

Tensor Sequential::operator()(const Tensor& x, SourceLocation where) const {
  Tensor y = x;
  for (const AnyModule& layer : layers_) y = layer(y, where);
  return y;
}

}  // namespace tandem::nn
