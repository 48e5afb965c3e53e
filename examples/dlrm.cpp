// A DLRM (deep learning recommendation model: embeddings of categories, a network over numbers,
// products of all pairs of vectors, a network over those) that says which flights will be late,
// from the schedule and the weather: examples/data/flights.csv.gz.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace td = tandem;
using td::Tensor;

namespace {

struct Arguments {
  int epochs = 6, batch = 256, channels = 16;
  uint64_t seed = 1;
  bool quiet = false;
  std::string data = "examples/data/flights.csv.gz";
};

// --- the data

struct Flights {
  Tensor categories;  // i64 [rows, kinds]
  Tensor numbers;     // [rows, features], standardised
  Tensor late;        // [rows]: 0 or 1
  TANDEM_FIELDS(Flights, categories, numbers, late)

  Flights rows(const Tensor& index) const {
    return {categories.index_select(0, index), numbers.index_select(0, index),
            late.index_select(0, index)};
  }
};

struct Data {
  std::vector<int64_t> counts;  // of each kind's categories
  Flights training, held_out;
};

Data load(const std::string& path) {
  const td::data::Table table = td::data::load_csv(path);
  Data data;
  std::vector<Tensor> codes;
  for (const char* column : {"month", "weekday", "carrier", "origin", "dest"}) {
    const td::data::Categories categories = table.categories(column);
    codes.push_back(categories.codes);
    data.counts.push_back(static_cast<int64_t>(categories.names.size()));
  }
  // By half hours a category too: how late flights are does not grow evenly over the day.
  const Tensor minutes = table.numbers("minutes", td::i64);
  codes.push_back(td::floor_divide(minutes, 30));
  data.counts.push_back(48);

  Tensor numbers = table.numbers(
      {"minutes", "distance", "temp", "humid", "wind_speed", "precip", "pressure", "visib"});
  const Tensor mean = td::nanmean(numbers, {0});
  numbers = td::nan_to_num(numbers - mean);  // what is missing is as the mean
  numbers = numbers / td::std(numbers, {0});

  const Flights all{td::stack(codes, 1), numbers, table.numbers("late")};
  const Tensor order = td::randperm(table.rows());
  const int64_t held_out = table.rows() / 5;
  data.held_out = all.rows(order.narrow(0, 0, held_out));
  data.training = all.rows(order.narrow(0, held_out, table.rows() - held_out));
  return data;
}

// --- the model

struct Dlrm {
  std::vector<td::nn::Embedding> embeddings;
  td::nn::Sequential bottom, top;
  TANDEM_FIELDS(Dlrm, embeddings, bottom, top)

  Dlrm(const std::vector<int64_t>& counts, int64_t features, int64_t channels) {
    for (const int64_t count : counts) {
      embeddings.emplace_back(count, channels);
      td::nn::init::normal_(embeddings.back().weight, 0, 0.1);
    }
    const auto vectors = static_cast<int64_t>(counts.size()) + 1;
    const int64_t pairs = vectors * (vectors - 1) / 2;
    bottom = td::nn::Sequential(td::nn::Linear(features, 64), td::nn::ReLU(),
                                td::nn::Linear(64, channels), td::nn::ReLU());
    top = td::nn::Sequential(td::nn::Linear(channels + pairs, 64), td::nn::ReLU(),
                             td::nn::Dropout{0.2}, td::nn::Linear(64, 1));
  }

  /// The logits of being late: [rows].
  Tensor operator()(const Flights& x) const {
    std::vector<Tensor> vectors{bottom(x.numbers)};
    for (size_t i = 0; i < embeddings.size(); ++i)
      vectors.push_back(embeddings[i](x.categories.select(1, static_cast<int64_t>(i))));
    const Tensor all = td::stack(vectors, 1);
    const Tensor products = td::bmm(all, all.transpose(1, 2));
    const auto n = static_cast<int64_t>(vectors.size());
    const Tensor below = td::tril_indices(n, n, -1);
    const Tensor places = below.select(0, 0) * n + below.select(0, 1);
    return top(td::cat({vectors[0], products.flatten(1).index_select(1, places)}, 1)).squeeze(1);
  }

  Tensor loss(const Flights& x) const {
    return td::binary_cross_entropy_with_logits((*this)(x), x.late);
  }
};

/// How likely a late flight is rated above one that is not.
double area_under_curve(const Tensor& logits, const Tensor& late) {
  const std::vector<double> by_rating =
      late.index_select(0, td::argsort(logits)).to_vector<double>();
  double on_time = 0, pairs = 0;
  for (const double y : by_rating) {
    pairs += y * on_time;
    on_time += 1 - y;
  }
  return pairs / (on_time * (static_cast<double>(by_rating.size()) - on_time));
}

// --- the run

void train(Dlrm& model, const Flights& flights, const Arguments& a) {
  td::optim::AdamW optimizer(td::nn::parameters(model), {.lr = 3e-3, .weight_decay = 0.01});
  const auto step = td::compile(
      [](const Dlrm& net, td::optim::AdamW& o, const Flights& x) {
        const Tensor loss = net.loss(x);
        loss.backward();
        o.step();
        o.zero_grad();
        return loss.detach();
      },
      {.name = "dlrm_step"});
  td::data::DataLoader loader(
      td::data::TensorDataset(flights.categories, flights.numbers, flights.late),
      {.batch_size = a.batch, .shuffle = true, .drop_last = true, .seed = a.seed});
  td::optim::CosineAnnealingLR schedule(optimizer, {.t_max = a.epochs * loader.size()});
  td::train::Progress progress(a.epochs * loader.size(),
                               {.items_per_step = a.batch, .unit = "flights", .quiet = a.quiet});
  int64_t done = 0;
  for (int epoch = 0; epoch < a.epochs; ++epoch)
    for (auto& [categories, numbers, late] : loader) {
      const Tensor loss = step(model, optimizer, {categories, numbers, late});
      schedule.step();
      progress.show(++done, {{"loss", loss.item()}});
    }
}

int run(const Arguments& a) {
  td::manual_seed(a.seed);
  const Data data = load(a.data);
  Dlrm model(data.counts, data.training.numbers.size(1), a.channels);
  train(model, data.training, a);

  const td::NoGrad no_grad;
  td::nn::eval(model);
  const Tensor logits = model(data.held_out), &late = data.held_out.late;
  const Tensor rate = data.training.late.mean();
  fmt::print("held-out log loss {:.4f}, of the base rate {:.4f}; area under the curve {:.3f}\n",
             td::binary_cross_entropy_with_logits(logits, late).item(),
             td::binary_cross_entropy(rate.expand(late.sizes()), late).item(),
             area_under_curve(logits, late));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Trains a DLRM to say which flights will be late."};
  app.add_option("--epochs", a.epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", a.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--channels", a.channels)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--data", a.data)->capture_default_str();
  app.add_flag("--quiet", a.quiet, "the result alone");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const td::Error& e) {
    fmt::print(stderr, "dlrm: {}\n", e.what());
    return 1;
  }
}
