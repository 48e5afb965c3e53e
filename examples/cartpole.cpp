// Policy gradient: balances a pole on a cart (Barto, Sutton & Anderson 1983; the numbers are those
// of Gym's CartPole-v1) by REINFORCE with normalised returns. Episodes last from ten to 500 steps,
// so nearly every update has a shape of its own: what a compiled function costs for a new shape is
// small (`./dev bench shapes`).
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <vector>

namespace td = tandem;
using td::Tensor;

namespace {

constexpr int kLongest = 500;

class CartPole {
 public:
  using State = std::array<double, 4>;  // position, speed, angle, angular speed

  explicit CartPole(td::data::Random& random) {
    for (double& value : state_) value = random.uniform(-0.05, 0.05);
  }
  const State& state() const { return state_; }

  /// Pushes to the left (0) or right (1); false once the pole has fallen or the cart is off.
  bool push(int64_t action) {
    constexpr double kGravity = 9.8, kPole = 0.1, kTotal = 1.1, kHalfLength = 0.5, kStep = 0.02;
    auto& [x, speed, angle, turning] = state_;
    const double force = action == 1 ? 10 : -10, sine = std::sin(angle), cosine = std::cos(angle);
    const double push = (force + kPole * kHalfLength * turning * turning * sine) / kTotal;
    const double turn = (kGravity * sine - cosine * push) /
                        (kHalfLength * (4.0 / 3 - kPole * cosine * cosine / kTotal));
    const double acceleration = push - kPole * kHalfLength * turn * cosine / kTotal;
    x += kStep * speed;
    speed += kStep * acceleration;
    angle += kStep * turning;
    turning += kStep * turn;
    return std::abs(x) < 2.4 && std::abs(angle) < 12 * M_PI / 180;
  }

 private:
  State state_{};
};

struct Policy {
  td::nn::Linear in{4, 64}, out{64, 2};
  TANDEM_FIELDS(Policy, in, out)
  /// states [n, 4] -> log probabilities [n, 2]
  Tensor operator()(const Tensor& states) const {
    return td::log_softmax(out(td::tanh(in(states))), -1);
  }
};

/// What some episodes gave, one behind the other.
struct Experience {
  std::vector<double> states, returns;
  std::vector<int64_t> actions;
};

template <class Act>
int play(const Act& act, const Policy& policy, td::data::Random& random, Experience& seen) {
  const td::NoGrad no_grad;
  CartPole game(random);
  int steps = 0;
  for (bool up = true; up && steps < kLongest; ++steps) {
    const auto& state = game.state();
    const std::vector<double> now(state.begin(), state.end());
    const double left =
        act(policy, td::from_data(now, {1, 4}).to(td::f32)).exp().select(1, 0).item();
    seen.states.insert(seen.states.end(), now.begin(), now.end());
    seen.actions.push_back(random.chance(left) ? 0 : 1);
    up = game.push(seen.actions.back());
  }
  double later = 0;
  std::vector<double> returns(static_cast<size_t>(steps));
  for (size_t i = returns.size(); i-- > 0;) returns[i] = later = 1 + 0.99 * later;
  seen.returns.insert(seen.returns.end(), returns.begin(), returns.end());
  return steps;
}

/// Raises the probability of actions that did better than the average.
Tensor improve(const Policy& policy, td::optim::Adam& optimizer, const Tensor& states,
               const Tensor& actions, const Tensor& returns) {
  const Tensor advantage = (returns - td::mean(returns)) / (td::std(returns) + 1e-6);
  const Tensor chosen = td::gather(policy(states), 1, actions.unsqueeze(1)).squeeze(1);
  const Tensor loss = -td::mean(chosen * advantage);
  loss.backward();
  td::optim::clip_grad_norm_(td::nn::parameters(policy), 1.0);
  optimizer.step();
  optimizer.zero_grad();
  return loss.detach();
}

/// The mean number of steps of the last 100 episodes.
double train(int episodes, int per_update, uint64_t seed, bool quiet) {
  td::manual_seed(seed);
  td::data::Random random(seed);
  const Policy policy;
  td::optim::Adam optimizer(td::nn::parameters(policy), {.lr = 1e-2});
  const auto act =
      td::compile([](const Policy& p, const Tensor& s) { return p(s); }, {.name = "act"});
  const auto update = td::compile(&improve, {.name = "improve"});
  td::train::Progress progress(episodes, {.unit = "episodes", .quiet = quiet});
  std::vector<double> lengths;
  double mean = 0;
  while (std::ssize(lengths) < episodes) {
    Experience seen;
    for (int i = 0; i < per_update; ++i) lengths.push_back(play(act, policy, random, seen));
    const auto n = std::ssize(seen.actions);
    update(policy, optimizer, td::from_data(seen.states, {n, 4}).to(td::f32),
           td::from_data(seen.actions, {n}), td::from_data(seen.returns, {n}).to(td::f32));
    const auto last = std::min<ptrdiff_t>(100, std::ssize(lengths));
    mean = 0;
    for (auto at = lengths.end() - last; at != lengths.end(); ++at)
      mean += *at / static_cast<double>(last);
    progress.show(std::min<int64_t>(std::ssize(lengths), episodes), {{"steps", mean}});
  }
  return mean;
}

}  // namespace

int main(int argc, char** argv) {
  int episodes = 800, per_update = 4;
  uint64_t seed = 1;
  bool quiet = false;
  CLI::App app{"Balances a pole by policy gradient."};
  app.add_option("--episodes", episodes)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--per-update", per_update)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed)->capture_default_str();
  app.add_flag("--quiet", quiet, "no progress bar");
  CLI11_PARSE(app, argc, argv);
  try {
    const double steps = train(episodes, per_update, seed, quiet);
    fmt::print("the last 100 episodes lasted {:.0f} of at most {} steps on average\n", steps,
               kLongest);
    return 0;
  } catch (const td::Error& e) {
    fmt::print(stderr, "cartpole: {}\n", e.what());
    return 1;
  }
}
