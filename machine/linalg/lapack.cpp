#include "machine/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "machine/threads/fork_lock.h"

// The Fortran symbols. Behind the arguments come the lengths of those that are text.
extern "C" {
#define TANDEM_LAPACK(p, T)                                                                       \
  void p##gemm_(const char*, const char*, const int*, const int*, const int*, const T*, const T*, \
                const int*, const T*, const int*, const T*, T*, const int*, size_t, size_t);      \
  void p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*,       \
                const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t);  \
  void p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                          \
  void p##getrf_(const int*, const int*, T*, const int*, int*, int*);                             \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);               \
  void p##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,    \
                 int*);                                                                           \
  void p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,  \
                 const int*, int*, size_t, size_t);                                               \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,     \
                 const int*, T*, const int*, int*, int*, size_t);
TANDEM_LAPACK(s, float)
TANDEM_LAPACK(d, double)
#undef TANDEM_LAPACK
}

namespace tandem::machine::lapack {
namespace {

template <class T>
struct Functions;
#define TANDEM_LAPACK(p, T)                  \
  template <>                                \
  struct Functions<T> {                      \
    static constexpr auto gemm = p##gemm_;   \
    static constexpr auto trsm = p##trsm_;   \
    static constexpr auto potrf = p##potrf_; \
    static constexpr auto getrf = p##getrf_; \
    static constexpr auto geqrf = p##geqrf_; \
    static constexpr auto orgqr = p##orgqr_; \
    static constexpr auto syevd = p##syevd_; \
    static constexpr auto gesdd = p##gesdd_; \
  };
TANDEM_LAPACK(s, float)
TANDEM_LAPACK(d, double)
#undef TANDEM_LAPACK

/// An argument as Fortran takes it.
struct Int {
  explicit Int(int64_t v) : value(static_cast<int>(v)) {}
  operator const int*() const { return &value; }  // NOLINT(google-explicit-constructor)
  int value;
};

/// Rows of a matrix in memory.
Int leading(int64_t rows) { return Int(std::max<int64_t>(rows, 1)); }

const char* job(Vectors vectors) {
  constexpr const char* kJobs[] = {"N", "S", "A"};
  return kJobs[static_cast<size_t>(vectors)];
}

/// What OpenBLAS has beside BLAS, or null in another library.
template <class F>
F openblas(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

/// Keeps a library's own threads from working. Whether only one thread at a time may call it.
bool takes_one_caller() {
  if (const auto set_threads = openblas<void (*)(int)>("openblas_set_num_threads")) set_threads(1);
  const auto config = openblas<const char* (*)()>("openblas_get_config");
  return config != nullptr &&
         std::string_view(config()).find("SINGLE_THREADED") != std::string_view::npos;
}

struct LapackCaller;

}  // namespace

bool takes_several_callers() {
  static const bool alone = takes_one_caller();
  return !alone;
}

Call::Call() {
  if (!takes_several_callers()) alone_ = std::unique_lock(fork_safe_mutex<LapackCaller>());
}

template <class T>
void gemm(const ProductSize& size, const Factor<T>& a, const Factor<T>& b,
          const ProductResult<T>& c) {
  const T factor = c.subtracts ? -1 : 1, kept = c.adds || c.subtracts ? 1 : 0;
  Functions<T>::gemm(a.transposed ? "T" : "N", b.transposed ? "T" : "N", Int(size.m), Int(size.n),
                     Int(size.k), &factor, a.first, leading(a.step), b.first, leading(b.step),
                     &kept, c.first, leading(c.step), 1, 1);
}

template <class T>
void trsm(Side side, const Triangle<T>& a, int64_t m, int64_t n, T* b, int64_t step) {
  const T one = 1;
  Functions<T>::trsm(side == Side::Left ? "L" : "R", a.upper ? "U" : "L", a.transposed ? "T" : "N",
                     a.unit ? "U" : "N", Int(m), Int(n), &one, a.first, leading(a.step), b,
                     leading(step), 1, 1, 1, 1);
}

template <class T>
int potrf(int64_t n, T* a, int64_t step) {
  int info = 0;
  Functions<T>::potrf("U", Int(n), a, leading(step), &info, 1);
  return info;
}

template <class T>
int getrf(int64_t m, int64_t n, T* a, int64_t step, int* pivots) {
  int info = 0;
  Functions<T>::getrf(Int(m), Int(n), a, leading(step), pivots, &info);
  return info;
}

template <class T>
Work qr_work(int64_t m, int64_t n, int64_t columns) {
  T of_r = 0, of_q = 0, a = 0, tau = 0;
  geqrf(m, n, &a, &tau, &of_r, -1);
  orgqr(m, columns, std::min(m, n), &a, &tau, &of_q, -1);
  return {static_cast<int64_t>(std::max({of_r, of_q, T(1)})), 0};
}

template <class T>
int geqrf(int64_t m, int64_t n, T* a, T* tau, T* work, int64_t size) {
  int info = 0;
  Functions<T>::geqrf(Int(m), Int(n), a, leading(m), tau, work, Int(size), &info);
  return info;
}

template <class T>
int orgqr(int64_t m, int64_t columns, int64_t reflectors, T* a, const T* tau, T* work,
          int64_t size) {
  int info = 0;
  Functions<T>::orgqr(Int(m), Int(columns), Int(reflectors), a, leading(m), tau, work, Int(size),
                      &info);
  return info;
}

template <class T>
Work syevd_work(int64_t n, Vectors vectors) {
  T a = 0, w = 0, size = 0;
  int ints = 0;
  syevd(n, vectors, &a, &w, &size, -1, &ints, -1);
  return {static_cast<int64_t>(size), ints};
}

template <class T>
int syevd(int64_t n, Vectors vectors, T* a, T* values, T* work, int64_t size, int* ints,
          int64_t int_size) {
  int info = 0;
  Functions<T>::syevd(vectors == Vectors::None ? "N" : "V", "L", Int(n), a, leading(n), values,
                      work, Int(size), ints, Int(int_size), &info, 1, 1);
  return info;
}

template <class T>
Work gesdd_work(int64_t m, int64_t n, Vectors vectors) {
  T a = 0, s = 0, u = 0, vh = 0, size = 0;
  int ints = 0;
  gesdd(m, n, vectors, &a, &s, &u, &vh, &size, -1, &ints);
  return {static_cast<int64_t>(size), 8 * std::min(m, n)};
}

template <class T>
int gesdd(int64_t m, int64_t n, Vectors vectors, T* a, T* s, T* u, T* vh, T* work, int64_t size,
          int* ints) {
  int info = 0;
  Functions<T>::gesdd(job(vectors), Int(m), Int(n), a, leading(m), s, u, leading(m), vh,
                      leading(vectors == Vectors::All ? n : std::min(m, n)), work, Int(size), ints,
                      &info, 1);
  return info;
}

#define TANDEM_LAPACK(T)                                                       \
  template void gemm(const ProductSize&, const Factor<T>&, const Factor<T>&,   \
                     const ProductResult<T>&);                                 \
  template void trsm(Side, const Triangle<T>&, int64_t, int64_t, T*, int64_t); \
  template int potrf(int64_t, T*, int64_t);                                    \
  template int getrf(int64_t, int64_t, T*, int64_t, int*);                     \
  template Work qr_work<T>(int64_t, int64_t, int64_t);                         \
  template int geqrf(int64_t, int64_t, T*, T*, T*, int64_t);                   \
  template int orgqr(int64_t, int64_t, int64_t, T*, const T*, T*, int64_t);    \
  template Work syevd_work<T>(int64_t, Vectors);                               \
  template int syevd(int64_t, Vectors, T*, T*, T*, int64_t, int*, int64_t);    \
  template Work gesdd_work<T>(int64_t, int64_t, Vectors);                      \
  template int gesdd(int64_t, int64_t, Vectors, T*, T*, T*, T*, T*, int64_t, int*);
TANDEM_LAPACK(float)
TANDEM_LAPACK(double)
#undef TANDEM_LAPACK

}  // namespace tandem::machine::lapack
