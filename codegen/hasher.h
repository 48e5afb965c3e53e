// The hash that kernels and what they are built from share.
#ifndef TANDEM_CODEGEN_HASHER_H
#define TANDEM_CODEGEN_HASHER_H

#include <cstdint>

namespace tandem::codegen {

/// FNV-1a over 64-bit words, with a final mix per word.
struct Hasher {
  uint64_t state = 0xcbf29ce484222325u;
  void word(int64_t v) {
    state = (state ^ static_cast<uint64_t>(v)) * 0x100000001b3u;
    state ^= state >> 29;
  }
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_HASHER_H
