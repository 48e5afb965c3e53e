// Index operations that write into given tensors.
#include "runtime/ops/out.h"

#include <tandem/ops/out_forms.h>

namespace tandem {

using runtime::apart;
using runtime::whole;
using runtime::write_out;

const Tensor& index_select_out(const Tensor& out, const Tensor& self, int64_t dim,
                               const Tensor& index, SourceLocation at) {
  return write_out("index_select_out", out, at, {apart(self), apart(index)},
                   [&] { return index_select(self, dim, index, at); });
}
const Tensor& gather_out(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                         SourceLocation at) {
  return write_out("gather_out", out, at, {apart(self), whole(index)},
                   [&] { return gather(self, dim, index, at); });
}
const Tensor& index_add_out(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                            const Tensor& src, SourceLocation at) {
  return write_out("index_add_out", out, at, {whole(self), apart(index), apart(src)},
                   [&] { return index_add(self, dim, index, src, at); });
}
const Tensor& scatter_add_out(const Tensor& out, const Tensor& self, int64_t dim,
                              const Tensor& index, const Tensor& src, SourceLocation at) {
  return write_out("scatter_add_out", out, at, {whole(self), apart(index), apart(src)},
                   [&] { return scatter_add(self, dim, index, src, at); });
}
const Tensor& scatter_out(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                          const Located& src) {
  return write_out("scatter_out", out, src.location, {whole(self), apart(index), apart(src)},
                   [&] { return scatter(self, dim, index, src); });
}
const Tensor& index_copy_out(const Tensor& out, const Tensor& self, int64_t dim,
                             const Tensor& index, const Tensor& src, SourceLocation at) {
  return write_out("index_copy_out", out, at, {whole(self), apart(index), apart(src)},
                   [&] { return index_copy(self, dim, index, src, at); });
}
const Tensor& index_fill_out(const Tensor& out, const Tensor& self, int64_t dim,
                             const Tensor& index, const Located& value) {
  return write_out("index_fill_out", out, value.location, {},
                   [&] { return index_fill(self, dim, index, value); });
}
const Tensor& index_put_out(const Tensor& out, const Tensor& self, const Indices& indices,
                            const Located& values, bool accumulate) {
  return write_out("index_put_out", out, values.location, {},
                   [&] { return index_put(self, indices, values, accumulate); });
}
const Tensor& masked_scatter_out(const Tensor& out, const Tensor& self, const Tensor& mask,
                                 const Tensor& src, SourceLocation at) {
  return write_out("masked_scatter_out", out, at, {},
                   [&] { return masked_scatter(self, mask, src, at); });
}
const Tensor& index_add_out(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                            const Tensor& src, const Number& alpha, SourceLocation at) {
  return write_out("index_add_out", out, at, {whole(self), apart(index), apart(src)},
                   [&] { return index_add(self, dim, index, src, alpha, at); });
}
const Tensor& scatter_out(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
                          const Located& src, std::string_view reduce) {
  return write_out("scatter_out", out, src.location, {whole(self), apart(index), apart(src)},
                   [&] { return scatter(self, dim, index, src, reduce); });
}
const Tensor& scatter_reduce_out(const Tensor& out, const Tensor& self, int64_t dim,
                                 const Tensor& index, const Tensor& src, std::string_view reduce,
                                 bool include_self, SourceLocation at) {
  return write_out("scatter_reduce_out", out, at, {whole(self), apart(index), apart(src)},
                   [&] { return scatter_reduce(self, dim, index, src, reduce, include_self, at); });
}
const Tensor& index_reduce_out(const Tensor& out, const Tensor& self, int64_t dim,
                               const Tensor& index, const Tensor& source, std::string_view reduce,
                               bool include_self, SourceLocation at) {
  return write_out("index_reduce_out", out, at, {whole(self), apart(index), apart(source)}, [&] {
    return index_reduce(self, dim, index, source, reduce, include_self, at);
  });
}

}  // namespace tandem
