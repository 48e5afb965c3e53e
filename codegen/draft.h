// Drafts of steps: launches and calls whose buffers are still roots of the program.
#ifndef TANDEM_CODEGEN_DRAFT_H
#define TANDEM_CODEGEN_DRAFT_H

#include <variant>
#include <vector>

#include "codegen/plan.h"

namespace tandem::codegen {

struct LaunchDraft {
  KernelId kernel;               // of Drafts::kernels
  std::vector<RootId> roots;     // of the program, one per kernel param
  std::vector<int64_t> offsets;  // elements: where in its root each param begins
  int64_t grain = 1;
  std::vector<std::string> checks;  // as Launch::checks
  bool can_fail = true;             // given what ran before
};

/// A kernel and a launch of it.
struct KernelDraft {
  Kernel kernel;
  LaunchDraft launch;
};

struct MatmulDraft {
  MatmulCall call;  // BufferRefs hold element offsets until the memory plan
  RootId a, b, c, bias;
  int64_t a_offset = 0, b_offset = 0, c_offset = 0, bias_offset = 0;
};

struct ExternalDraft {
  ExternalCall call;  // without BufferRefs until the memory plan
  std::vector<RootId> operands, results;
  std::vector<int64_t> offsets;  // elements, of the operands
};

using StepDraft = std::variant<LaunchDraft, MatmulDraft, ExternalDraft>;

struct Drafts {
  Table<KernelId, Kernel> kernels;  // of any number of launches each
  Table<StepId, StepDraft> steps;
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_DRAFT_H
