// Programs of several compiled functions with eager code between them: what one makes another
// writes, and their values share memory.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

/// A compiled function inside a program that runs eagerly around it. In the eager program it runs
/// as it is.
class Fragment {
 public:
  explicit Fragment(Program function) : function_(std::move(function)) {}

  Tensors operator()(const Tensors& in) const {
    return enabled() ? (*compiled())(in) : function_(in);
  }
  /// Whether fragments run compiled.
  static bool& enabled() {
    static bool on = false;
    return on;
  }

 private:
  using Compiled = decltype(compile(std::declval<std::function<Tensors(const Tensors&)>>()));
  const std::shared_ptr<Compiled>& compiled() const {
    if (!compiled_) compiled_ = std::make_shared<Compiled>(compile(function_));
    return compiled_;
  }

  Program function_;
  mutable std::shared_ptr<Compiled> compiled_;
};

struct FragmentedProgram {
  const char* name;
  MakeInputs inputs;
  Program function;  // calls fragments
};

std::ostream& operator<<(std::ostream& out, const FragmentedProgram& program) {
  return out << program.name;
}

Fragment fragment(Tensors (*function)(const Tensors&)) { return Fragment(function); }

Tensors doubled_and_a_row(const Tensors& in) {
  const Tensor y = in[0] * 2;
  return {y, y.select(0, 1)};
}
Tensors tripled_in_place(const Tensors& in) { return in[0].mul_(3), Tensors{}; }

const std::vector<FragmentedProgram> kPrograms{
    {"ALaterOneWritesWhatAnEarlierOneMade", tensors({{3}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors {
        return in[0].mul_(in[1]), Tensors{in[0] + 1};
      })](const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       return {b({y, in[0]})[0], y};
     }},
    {"ZerosMadeInOneWrittenInAnother", tensors({{3}}),
     [a = fragment([](const Tensors&) -> Tensors { return {zeros({3, 3})}; }),
      b = fragment([](const Tensors& in) -> Tensors {
        in[0].select(1, 1).add_(in[1]);
        return {};
      })](const Tensors& in) -> Tensors {
       const Tensor y = a({})[0];
       b({y, in[0]});
       return {y};
     }},
    {"AViewMadeInOneWrittenInAnother", tensors({{2, 3}}),
     [a = fragment(doubled_and_a_row),
      b = fragment(tripled_in_place)](const Tensors& in) -> Tensors {
       const Tensors y = a(in);
       b({y[1]});
       return {y[0] * y[0], y[1]};
     }},
    {"ABaseMadeInOneWrittenInAnother", tensors({{2, 3}}),
     [a = fragment(doubled_and_a_row),
      b = fragment(tripled_in_place)](const Tensors& in) -> Tensors {
       const Tensors y = a(in);
       b({y[0]});
       return {y[1] * 2};
     }},
    {"ViewsOfTwoFragmentsShareMemory", tensors({{6}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0].slice(0, 0, 4)}; }),
      b = fragment([](const Tensors& in) -> Tensors { return {in[0].slice(0, 2, 6)}; }),
      c = fragment([](const Tensors& in) -> Tensors {
        in[0].add_(1);
        return {in[1] * 2};
      })](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2, left = a({y})[0], right = b({y})[0];
       return {c({left, right})[0], y, left, right};
     }},
    {"EagerWritesBetween", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       y.add_(1);
       y.slice(0, 0, 2).mul_(2);
       return b({y});
     }},
    {"EagerReadsBetween", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return {in[0] + 1}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       const double sum = y.sum().item();
       return b({sum > 0 ? y : -y});
     }},
    {"PrintsBetween", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{in[0]}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       EXPECT_FALSE(y.to_string().empty());
       return b({y});
     }},
    {"AHookBetween", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       if (y.requires_grad()) y.register_hook([](const Tensor& g) { return g * 10; });
       return b({y});
     }},
    {"AHookThenAWrite", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(3), Tensors{}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       if (y.requires_grad()) y.register_hook([](const Tensor& g) { return g * 10; });
       b({y});
       return {y};
     }},
    {"TheSameFragmentTwice", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{in[0] + 1}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 1, first = a({y})[0];
       return {first, a({y})[0], a({first})[0], y};
     }},
    {"OneWritesTheOthersInput", tensors({{4}, {4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }),
      b = fragment([](const Tensors& in) -> Tensors { return in[0].add_(in[1]), Tensors{}; })](
         const Tensors& in) -> Tensors {
       const Tensor x = in[0] * 1, first = a({x, in[1]})[0];
       b({first, x});
       return {first, a({first, x})[0]};
     }},
    {"DetachBetween", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0], d = y.detach();
       b({d});
       return {y * 1, d};
     }},
    {"NoGradAroundOne", tensors({{4}}),
     [a = fragment([](const Tensors& in) -> Tensors { return {in[0] * 2}; }),
      b = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{in[0] + 1}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = a(in)[0];
       Tensor z;
       {
         const NoGrad no_grad;
         z = b({y})[0];
       }
       return {y, z};
     }},
    {"AViewMadeEagerlyWrittenInOne", tensors({{2, 3}}),
     [b = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{}; })](
         const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       b({y.t().select(0, 1)});
       return {y * y};
     }},
    {"APieceOfAnIntermediateWrittenInOne", tensors({{6}}),
     [a = fragment([](const Tensors& in) -> Tensors {
        const Tensor y = in[0] * 2;
        return {y.slice(0, 0, 3), y.slice(0, 2, 6)};
      }),
      b = fragment([](const Tensors& in) -> Tensors { return in[0].mul_(5), Tensors{}; })](
         const Tensors& in) -> Tensors {
       const Tensors y = a(in);
       b({y[0]});
       return {y[1] * 2, y[0]};
     }},
    {"AnInPlaceChainOfFragments", tensors({{4}}),
     [b = fragment([](const Tensors& in) -> Tensors { return {in[0].mul_(2)}; })](
         const Tensors& in) -> Tensors {
       Tensor y = in[0] * 1;
       for (int i = 0; i < 3; ++i) y = b({y})[0];
       return {y};
     }},
};

class Fragments : public ::testing::TestWithParam<FragmentedProgram> {};

TEST_P(Fragments, AreAsEager) {
  for (const CallSetting& setting : kAllSettings) {
    const RunOptions how{.setting = setting.inputs, .grad_mode = setting.grad_mode};
    Fragment::enabled() = false;
    const Outcome eager = run(GetParam().function, GetParam().inputs, how);
    Fragment::enabled() = true;
    for (int call = 0; call < 2; ++call)
      EXPECT_EQ(difference(eager, run(GetParam().function, GetParam().inputs, how), 1e-5), "");
    Fragment::enabled() = false;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Fragments, ::testing::ValuesIn(kPrograms),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::testing
