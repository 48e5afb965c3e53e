// Curves of a training run as a picture.
#ifndef TANDEM_TRAIN_CURVES_H
#define TANDEM_TRAIN_CURVES_H

#include <tandem/ir/export.h>

#include <string>
#include <vector>

namespace tandem::train {

struct Curve {
  std::string name;
  std::vector<double> y;
  std::vector<double> x = {};  // none: 0, 1, 2, ...; else one for each y, ascending
};

/// A dashed horizontal line to compare with.
struct Level {
  std::string name;
  double y;
};

struct CurveOptions {
  std::string title = {}, x_label = "step", y_label = {};
  int width = 720, height = 400;
  int points = 400;    // at most: longer curves are averaged
  bool log_y = false;  // what is not positive is left out then
};

/// An SVG drawing of the curves, with axes and a legend. What is not finite leaves a gap.
/// Error{Argument} for x and y of different lengths, and for a drawing without room.
TANDEM_API std::string svg(const std::vector<Curve>& curves, const std::vector<Level>& levels = {},
                           const CurveOptions& options = {});
/// Writes it to `path`, in one step.
TANDEM_API void write_svg(const std::string& path, const std::vector<Curve>& curves,
                          const std::vector<Level>& levels = {}, const CurveOptions& options = {});

}  // namespace tandem::train

#endif  // TANDEM_TRAIN_CURVES_H
