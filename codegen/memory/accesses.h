// Which elements of a value a step reads or writes.
#ifndef TANDEM_CODEGEN_MEMORY_ACCESSES_H
#define TANDEM_CODEGEN_MEMORY_ACCESSES_H

#include <vector>

#include "codegen/draft.h"
#include "codegen/nodes/elements.h"

namespace tandem::codegen {

/// What an access of `kernel` reaches, counted from where its param begins.
Elements elements_of(const Kernel& kernel, const Access& access);

/// What a step reads or writes of `root`; `kernel`: the one that is launched.
std::vector<Elements> elements_of(const LaunchDraft& launch, const Kernel& kernel, RootId root,
                                  Instr::Kind access);
std::vector<Elements> elements_of(const MatmulDraft& product, RootId root, Instr::Kind access);
std::vector<Elements> elements_of(const ExternalDraft& external, RootId root, Instr::Kind access);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_MEMORY_ACCESSES_H
