// The programs of `./dev bench shapes`: one step of a loss and its gradients, at any shape.
#ifndef TANDEM_BENCH_SHAPES_PROGRAMS_H
#define TANDEM_BENCH_SHAPES_PROGRAMS_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/// What a call's shape follows from.
struct CallShape {
  int64_t batch, time;
};

class ShapeProgram {
 public:
  virtual ~ShapeProgram() = default;
  /// Makes the data of calls of this shape; it depends on the shape alone.
  virtual void prepare(CallShape shape) = 0;
  /// Loss and gradients of a compiled function, at the shape prepared for.
  virtual void step() = 0;
  /// A hash of the bits of the last step's loss and gradients.
  virtual uint64_t bits() const = 0;
};

struct ShapeRow {
  const char* name;
  std::unique_ptr<ShapeProgram> (*make)();
  std::vector<CallShape> (*shapes)(int count);  // all different
};

/// nanogpt (4 layers, 4 heads, 128 channels) over batches and sequence lengths; an MLP over
/// batches.
const std::vector<ShapeRow>& shape_rows();

}  // namespace bench

#endif  // TANDEM_BENCH_SHAPES_PROGRAMS_H
