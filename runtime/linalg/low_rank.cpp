// Approximations of low rank, by random samples of the columns' span.
#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>

#include "runtime/linalg/checks.h"

namespace tandem {
namespace {

using ir::ErrorScope;

Tensor orthogonal(const Tensor& x) { return linalg::qr(x).q; }

/// q orthogonal columns that nearly span those of x [..., m, n].
Tensor approximate_basis(const Tensor& x, Dim q, int64_t niter) {
  Tensor basis = orthogonal(x.matmul(randn({x.size(-1), q}, x.dtype())));
  for (int64_t i = 0; i < niter; ++i)
    basis = orthogonal(x.matmul(orthogonal(x.mT().matmul(basis))));
  return basis;
}

void check_rank(const Tensor& x, Dim q, int64_t niter) {
  if (x.dim() < 2) runtime::reject(Errc::Shape, "expected matrices, got {}", to_string(x.sizes()));
  if (q < 0 || q > std::min(x.size(-1), x.size(-2)))
    runtime::reject(Errc::Argument, "q out of range; expected 0 to {}, got {}",
                    int64_t{std::min(x.size(-1), x.size(-2))}, int64_t{q});
  if (niter < 0) runtime::reject(Errc::Argument, "expected niter of at least 0, got {}", niter);
}

SvdOfV low_rank(const Tensor& x, Dim q, int64_t niter) {
  check_rank(x, q, niter);
  const bool is_wide = x.size(-2) < x.size(-1);
  const Tensor tall = is_wide ? x.mT() : x, basis = approximate_basis(tall, q, niter);
  const Svd f = linalg::svd(basis.mT().matmul(tall), false);
  const Tensor u = basis.matmul(f.u), v = f.vh.mT();
  return is_wide ? SvdOfV{v, f.s, u} : SvdOfV{u, f.s, v};
}

}  // namespace

SvdOfV svd_lowrank(const Tensor& self, Dim q, int64_t niter, const Tensor& m, SourceLocation at) {
  const ErrorScope errors(at);
  return low_rank(m.defined() ? sub(Located(self, at), Located(m, at)) : self, q, niter);
}
SvdOfV pca_lowrank(const Tensor& self, std::optional<Dim> q, bool center, int64_t niter,
                   SourceLocation at) {
  const ErrorScope errors(at);
  if (self.dim() < 2)
    runtime::reject(Errc::Shape, "expected matrices, got {}", to_string(self.sizes()));
  const Dim most = std::min({Dim(6), self.size(-1), self.size(-2)});
  const Tensor x = center ? self - mean(self, {-2}, true, at) : self;
  return low_rank(x, q.value_or(most), niter);
}

}  // namespace tandem
