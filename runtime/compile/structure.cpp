// What <tandem/structure.h> and the visitors of <tandem/compile.h> do that depends on no type.
#include <tandem/compile.h>

#include <map>

namespace tandem {
namespace structure {
namespace {

using Copies = std::map<const void*, std::shared_ptr<void>>;

}  // namespace

std::shared_ptr<void> OwnShared::copy_of(const void* shared) const {
  if (!copies_) return nullptr;
  const auto& copies = *static_cast<const Copies*>(copies_.get());
  const auto found = copies.find(shared);
  return found == copies.end() ? nullptr : found->second;
}

void OwnShared::note_copy(const void* shared, const std::shared_ptr<void>& copy) {
  if (!copies_) copies_ = std::make_shared<Copies>();
  auto& copies = *static_cast<Copies*>(copies_.get());
  copies[shared] = copies[copy.get()] = copy;
}

}  // namespace structure

namespace runtime {

void Flat::operator()(const Tensor& t, const std::string&) {
  tokens.push_back(t.defined());
  if (t.defined()) tensors.push_back(&t);
}
void Flat::operator()(const Scalar& s, const std::string& path) { (*this)(s.tensor(), path); }
void Flat::operator()(const std::string& s, const std::string&) {
  tokens.push_back(s.size());
  for (const char c : s) tokens.push_back(static_cast<unsigned char>(c));
}
void Flat::count(uint64_t n, const std::string&) { tokens.push_back(n); }

void ReplaceInputs::operator()(Tensor& t, const std::string& path) {
  session.name_guards(path, 1, nullptr);
  stand_ins.push_back(t = session.input(t, path));
}
void ReplaceInputs::operator()(Scalar& s, const std::string& path) {
  session.name_guards(path, 1, nullptr);
  stand_ins.push_back(session.input(s.tensor(), path));
  s = Scalar(stand_ins.back());
}
void ReplaceInputs::operator()(const structure::NumberBits& v, const std::string& path) {
  session.name_guards(path, 1, v.spell);
}
void ReplaceInputs::operator()(const std::string& s, const std::string& path) {
  session.name_guards(path, 1 + s.size(), nullptr);
}
void ReplaceInputs::count(size_t, const std::string& path) {
  session.name_guards("size of " + path, 1, &structure::spell_bits<size_t>);
}

}  // namespace runtime
}  // namespace tandem
