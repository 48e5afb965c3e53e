// Recurrent layers and their cells. Inside a compiled function a layer over 8 steps or more is one
// loop (scan): it compiles as fast whatever the number of steps. (Not under autocast: there each
// step is written out.)
#ifndef TANDEM_NN_RECURRENT_H
#define TANDEM_NN_RECURRENT_H

#include <tandem/ops.h>
#include <tandem/structure.h>

#include <typeinfo>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// Tensors with names of their own, which stand among the fields of what holds them.
struct TANDEM_API NamedWeights {
  std::vector<std::pair<std::string, Tensor>> list;

  void tandem_list(structure::Fields& out, const std::string* path) const;
  void tandem_own(structure::OwnShared&) {}
  const std::type_info& tandem_type() const;
};

/// nonlinearity ("tanh" or "relu") is of RNN, proj_size of LSTM: Error{Argument} elsewhere.
/// dropout: of what one layer gives to the next, in training.
struct RecurrentOptions {
  int64_t num_layers = 1;
  std::string_view nonlinearity = {};
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  int64_t proj_size = 0;
  DType dtype = f32;
};

struct RecurrentFields {
  NamedWeights weights;
  int64_t input_size = 0, hidden_size = 0, num_layers = 1, proj_size = 0;
  std::string nonlinearity = "tanh";
  bool bias = true, batch_first = false, bidirectional = false, training = true;
  double dropout = 0;
  TANDEM_LAZY_FIELDS(RecurrentFields, weights, input_size, hidden_size, num_layers, proj_size,
                     nonlinearity, bias, batch_first, bidirectional, training, dropout)
};

/// What recurrent layers have: for each layer and direction weight_ih_l0 [gates hidden, in],
/// weight_hh_l0 [gates hidden, out], bias_ih_l0 and bias_hh_l0 [gates hidden], weight_hr_l0
/// [proj_size, hidden] of projections; of the other direction ..._reverse. All uniform in
/// +-1/sqrt(hidden) at first.
struct Recurrent : RecurrentFields {
  /// The weight of this name. Error{Argument} if there is none.
  TANDEM_API const Tensor& weight(std::string_view name, TANDEM_AT) const;

  static constexpr std::string_view tandem_field_name(size_t i) {
    return i == 0 ? "" : RecurrentFields::tandem_field_name(i);
  }
};

/// output [t, n, directions out], or as the input lies; state [layers directions, n, out]: the
/// last.
struct RecurrentResult {
  Tensor output, state;
  TANDEM_LAZY_FIELDS(RecurrentResult, output, state)
};

/// h and c: what an LSTM carries on; both undefined: zeros.
struct LstmState {
  Tensor h, c;
  TANDEM_LAZY_FIELDS(LstmState, h, c)
};
struct LstmResult {
  Tensor output;
  LstmState state;
  TANDEM_LAZY_FIELDS(LstmResult, output, state)
};

/// h = tanh(W_ih x + b_ih + W_hh h + b_hh). x [t, n, in], with batch_first [n, t, in], or [t, in];
/// state [layers directions, n, hidden], or without n: zeros if undefined.
struct RNN : Recurrent {
  RNN() = default;
  TANDEM_API RNN(Dim input_size, Dim hidden_size, const RecurrentOptions& options = {}, TANDEM_AT);
  TANDEM_API RecurrentResult operator()(const Tensor& x, const Tensor& state = {}, TANDEM_AT) const;
};
struct GRU : Recurrent {
  GRU() = default;
  TANDEM_API GRU(Dim input_size, Dim hidden_size, const RecurrentOptions& options = {}, TANDEM_AT);
  TANDEM_API RecurrentResult operator()(const Tensor& x, const Tensor& state = {}, TANDEM_AT) const;
};
struct LSTM : Recurrent {
  LSTM() = default;
  TANDEM_API LSTM(Dim input_size, Dim hidden_size, const RecurrentOptions& options = {}, TANDEM_AT);
  TANDEM_API LstmResult operator()(const Tensor& x, const LstmState& state = {}, TANDEM_AT) const;
};

struct CellOptions {
  bool bias = true;
  std::string_view nonlinearity = {};  // of RNNCell: "tanh" or "relu"
  DType dtype = f32;
};

struct Cell {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  std::string nonlinearity = "tanh";
  TANDEM_LAZY_FIELDS(Cell, weight_ih, weight_hh, bias_ih, bias_hh, nonlinearity)
};

/// One step: x [n, in] or [in], state [n, hidden] or [hidden], zeros if undefined.
struct RNNCell : Cell {
  RNNCell() = default;
  TANDEM_API RNNCell(Dim input_size, Dim hidden_size, const CellOptions& options = {}, TANDEM_AT);
  TANDEM_API Tensor operator()(const Tensor& x, const Tensor& state = {}, TANDEM_AT) const;
};
struct GRUCell : Cell {
  GRUCell() = default;
  TANDEM_API GRUCell(Dim input_size, Dim hidden_size, const CellOptions& options = {}, TANDEM_AT);
  TANDEM_API Tensor operator()(const Tensor& x, const Tensor& state = {}, TANDEM_AT) const;
};
struct LSTMCell : Cell {
  LSTMCell() = default;
  TANDEM_API LSTMCell(Dim input_size, Dim hidden_size, const CellOptions& options = {}, TANDEM_AT);
  TANDEM_API LstmState operator()(const Tensor& x, const LstmState& state = {}, TANDEM_AT) const;
};

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_RECURRENT_H
