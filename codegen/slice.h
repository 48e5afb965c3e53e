// Slices: bundles cut out of their program, with all that their kernels depend on and nothing else.
// The kernels are made from the slice, so equal slices (one layer and the next) have equal kernels;
// where in a value a slice begins is not part of it, so what is done to one part of a value and the
// next is equal too.
#ifndef TANDEM_CODEGEN_SLICE_H
#define TANDEM_CODEGEN_SLICE_H

#include <vector>

#include "codegen/draft.h"
#include "codegen/fusion/bundle.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {

struct Slice {
  Program program;  // the bundle's nodes, and roots in the order that the nodes name them
  Bundle bundle;    // of `program`
  Table<RootId, bool> stored;  // by root: whether it has to be in memory afterwards
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct SliceHash {
  size_t operator()(const Slice& slice) const;
};

class Slicer {
 public:
  /// `stored`: by root of the program.
  Slicer(const Program& program, const Table<RootId, bool>& stored);

  /// The slice is good until the next call.
  const Slice& cut(const Bundle& bundle);
  /// By root of the latest slice: which it is in the program.
  const Table<RootId, RootId>& roots() const { return roots_; }
  /// By root of the latest slice: the element of it that is element 0 of the slice's root.
  const Table<RootId, int64_t>& offsets() const { return offsets_; }

 private:
  void renumber(Node& node);
  void move_to_start();
  RootId own_id(RootId root);

  const Program& program_;
  const Table<RootId, bool>& stored_;
  Slice slice_;
  Table<RootId, RootId> roots_;
  Table<RootId, int64_t> offsets_;
  Table<RootId, RootId> own_ids_;  // by root of the program: which it is in the slice, or none
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_SLICE_H
