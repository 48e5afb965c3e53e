// What a compiler says of code that misuses the headers: tests/CMakeLists.txt compiles this file
// once for each MISUSE_..., and asks that the first error is one sentence; and once without, with
// all warnings as errors.
#include <tandem/data.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <array>
#include <iostream>
#include <vector>

namespace td = tandem;

namespace {

struct Base {
  td::Tensor weight;
  TANDEM_FIELDS(Base, weight)
};
struct WithBase : Base {
  td::Tensor more;
  TANDEM_FIELDS_AND_BASE(WithBase, Base, more)
};
struct Hiding : Base {
  td::Tensor more;
  TANDEM_FIELDS(Hiding, more)
};
struct HidingTwice : WithBase {
  td::Tensor last;
  TANDEM_FIELDS(HidingTwice, last)
};
struct Silent : Base {
  td::Tensor more;
};
struct Renamed : Base {};
struct Foreign {
  td::Tensor tensor;
};
struct Numbered {
  td::Tensor image;
  int label = 0;
  TANDEM_FIELDS(Numbered, image, label)
};

struct Model {
  td::Tensor forward(const td::Tensor& x) const { return x + 1; }
};
struct Overloaded {
  td::Tensor operator()(const td::Tensor& x) const { return x + 1; }
  td::Tensor operator()(double x) const { return td::tensor(x); }
};

td::Tensor plus(const td::Tensor& x) noexcept { return x + 1; }

}  // namespace

int main() {
  using td::Tensor;
  const Tensor x = td::ones({2, 3});
#if defined(MISUSE_GENERIC_LAMBDA)
  td::compile([](const auto& a) { return a + 1; });
#elif defined(MISUSE_OVERLOADED)
  td::compile(Overloaded());
#elif defined(MISUSE_MEMBER_FUNCTION)
  td::compile(&Model::forward);
#elif defined(MISUSE_GRADIENT_OF_MEMBER_FUNCTION)
  td::grad(&Model::forward);
#elif defined(MISUSE_HIDDEN_BASE)
  td::nn::parameters(Hiding());
#elif defined(MISUSE_HIDDEN_BASE_OF_BASE)
  td::nn::parameters(HidingTwice());
#elif defined(MISUSE_FIELDS_OF_ITS_OWN)
  td::nn::parameters(Silent());
#elif defined(MISUSE_POINTER)
  td::compile([](const Model* m) { return m->forward(td::ones({2})); })(nullptr);
#elif defined(MISUSE_FOREIGN)
  td::compile([](const Foreign& f) { return f.tensor + 1; })(Foreign());
#elif defined(MISUSE_BATCH_FIELD)
  td::data::Stack()(std::vector<Numbered>(2));
#else
  struct Local {
    Tensor weight;
    TANDEM_FIELDS(Local, weight)
  };
  td::nn::parameters(Local());
  const auto f = td::compile(plus, {.name = "plus"});
  const auto g =
      td::compile([](const Tensor& a) noexcept { return a + 1; }, {.partition = "save-all"});
  const auto h =
      td::compile([n = 0](const Tensor& a) mutable { return a + ++n; }, {.cache_dir = ""});
  const auto k = td::compile<Tensor(const Tensor&)>([](const auto& a) { return a + 1; },
                                                    {.max_variant_bytes = 1000});
  std::cout << f(x) << g(x) << h(x) << k(x) << td::nn::parameters(Renamed()).size()
            << td::nn::named_tensors(WithBase()).size()
            << x.scatter(0, td::zeros({1, 1}, td::i64), 1);
  td::optim::SGD sgd({x}, {.momentum = 0.5});
  td::optim::AdamW adamw({x}, {.eps = 1e-6});
  td::grad({x.sum()}, {x}, {.allow_unused = true});
  td::data::DataLoader loader(td::data::TensorDataset(x, x), {.batch_size = 2});
  for (auto& [a, b] : loader) std::cout << a << b;
#endif
}
