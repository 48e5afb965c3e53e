#include <tandem/nn/fields.h>

namespace tandem::structure {

void ListFields::append(const Fields& fields) {
  fields_.insert(fields_.end(), fields.begin(), fields.end());
}

void ListFields::add(FieldKind kind, const std::string& path, const void* value,
                     const std::type_info* type, NumberBits number) {
  fields_.push_back({kind, path, const_cast<void*>(value), type, number});
}

}  // namespace tandem::structure
