// Layers of any type, and layers one after another. A std::vector of modules is PyTorch's
// ModuleList, a std::map from strings its ModuleDict, with the same names; of nn::AnyModule they
// hold layers of several types.
#ifndef TANDEM_NN_SEQUENTIAL_H
#define TANDEM_NN_SEQUENTIAL_H

#include <tandem/nn/fields.h>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::nn {

/// Called with a tensor it gives one: a struct with TANDEM_FIELDS, or without any state (a lambda
/// that captures nothing).
template <class M>
concept Layer = requires(const M& m, const Tensor& x) {
  { m(x) } -> std::same_as<Tensor>;
};

/// A layer of any type, by value (copies share its tensors, as those of any module do) or by
/// std::shared_ptr (copies share the layer). Its fields are the layer's, under the same names; a
/// compiled function is guarded by its type too.
class TANDEM_API AnyModule {
 public:
  /// None: only assignment takes it.
  AnyModule() = default;
  template <class M>
    requires(!std::same_as<M, AnyModule> && Layer<M>)
  AnyModule(M layer)  // NOLINT(google-explicit-constructor)
      : held_(std::make_unique<Holder<M>>(std::move(layer))) {}
  template <class M>
  AnyModule(std::shared_ptr<M> layer)  // NOLINT(google-explicit-constructor)
      : held_(std::make_unique<Holder<std::shared_ptr<M>>>(require_layer(std::move(layer)))) {}
  AnyModule(const AnyModule& other) : held_(other.held_ ? other.held_->copy() : nullptr) {}
  AnyModule(AnyModule&&) noexcept = default;
  AnyModule& operator=(AnyModule other) noexcept { return held_.swap(other.held_), *this; }
  ~AnyModule() = default;

  bool defined() const { return held_ != nullptr; }
  /// Error{Argument} if there is no layer.
  Tensor operator()(const Tensor& x, SourceLocation where = SourceLocation::current()) const;

  /// The layer, if it is an M; else null.
  template <class M>
  M* get_if() {
    return static_cast<M*>(address_of(typeid(M)));
  }
  template <class M>
  const M* get_if() const {
    return static_cast<const M*>(address_of(typeid(M)));
  }

  void tandem_list(structure::Fields& out, const std::string* path) const;
  void tandem_own(structure::OwnShared& own);
  /// Of void if there is none.
  const std::type_info& tandem_type() const;

 private:
  struct Held {
    virtual ~Held();
    virtual std::unique_ptr<Held> copy() const = 0;
    virtual Tensor call(const Tensor& x, SourceLocation where) const = 0;
    virtual void list(structure::Fields& out, const std::string* path) const = 0;
    virtual void own(structure::OwnShared& own) = 0;
    virtual const std::type_info& type() const = 0;  // of the layer
    virtual void* address() = 0;                     // of the layer
  };

  template <class Kept>
  static auto& layer_of(Kept& kept) {
    if constexpr (structure::is_instance<std::remove_const_t<Kept>, std::shared_ptr>)
      return *kept;
    else
      return kept;
  }
  template <class Kept>
  struct Holder;

  template <class M>
  static std::shared_ptr<M> require_layer(std::shared_ptr<M> layer) {
    static_assert(Layer<M>, "nn::AnyModule: expected a shared_ptr to a layer");
    require_not_null(layer.get());
    return layer;
  }
  static void require_not_null(const void* layer);
  void* address_of(const std::type_info& type) const;

  std::unique_ptr<Held> held_;
};

template <class Kept>
struct AnyModule::Holder final : Held {
  using M = std::remove_cvref_t<decltype(layer_of(std::declval<Kept&>()))>;

  explicit Holder(Kept k) : kept(std::move(k)) {}
  std::unique_ptr<Held> copy() const override { return std::make_unique<Holder>(kept); }
  Tensor call(const Tensor& x, SourceLocation where) const override {
    const M& layer = layer_of(kept);
    if constexpr (std::is_invocable_v<const M&, const Tensor&, SourceLocation>)
      return layer(x, where);
    else
      return layer(x);
  }
  void list(structure::Fields& out, const std::string* path) const override {
    structure::ListFields list(out);
    if constexpr (std::is_empty_v<M> && !structure::HasFields<M>)
      list.module(layer_of(kept), path ? *path : std::string());
    else if (path != nullptr)
      structure::for_each_leaf<true>(kept, list, *path);
    else
      structure::for_each_leaf<false>(kept, list);
  }
  void own(structure::OwnShared& own) override {
    structure::OwnAll all{own};
    if constexpr (!std::is_empty_v<M> || structure::HasFields<M>)
      structure::for_each_leaf<false>(kept, all);
  }
  const std::type_info& type() const override { return typeid(M); }
  void* address() override { return &layer_of(kept); }

  Kept kept;
};

/// torch.nn.Sequential: layers one after another, named by their numbers ("0.weight").
///   nn::Sequential net{nn::Linear(784, 64), nn::ReLU(), nn::Linear(64, 10)};
class TANDEM_API Sequential {
 public:
  Sequential() = default;
  template <class... M>
    requires(sizeof...(M) > 0 && (std::constructible_from<AnyModule, M> && ...) &&
             !(sizeof...(M) == 1 && (std::same_as<M, Sequential> && ...)))
  explicit Sequential(M... layers) {
    (push_back(std::move(layers)), ...);
  }
  explicit Sequential(std::vector<AnyModule> layers) : layers_(std::move(layers)) {}
  TANDEM_NAMED_FIELDS(Sequential, "", layers_)

  void push_back(AnyModule layer) { layers_.push_back(std::move(layer)); }
  size_t size() const { return layers_.size(); }
  AnyModule& operator[](size_t i) { return layers_[i]; }
  const AnyModule& operator[](size_t i) const { return layers_[i]; }
  auto begin() { return layers_.begin(); }
  auto end() { return layers_.end(); }
  auto begin() const { return layers_.begin(); }
  auto end() const { return layers_.end(); }

  /// The last layer's result; of no layers x itself.
  Tensor operator()(const Tensor& x, SourceLocation where = SourceLocation::current()) const;

 private:
  std::vector<AnyModule> layers_;
};

}  // namespace tandem::nn

#endif  // TANDEM_NN_SEQUENTIAL_H
