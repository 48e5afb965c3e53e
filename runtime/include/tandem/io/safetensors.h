// Tensors in safetensors files, single or sharded: as Hugging Face and PyTorch write and read them.
#ifndef TANDEM_IO_SAFETENSORS_H
#define TANDEM_IO_SAFETENSORS_H

#include <tandem/named_tensors.h>

#include <map>
#include <string>

namespace tandem {

struct LoadOptions {
  /// Instead of reading it, map the file and let the tensors show it: nothing is copied, and memory
  /// is used for what is touched. The mapping is private: tensors may be written, as in training,
  /// and the file stays as it is. (What is not aligned to its element is copied.) The file must
  /// not be shortened while the tensors live; a save to the same path is no such change.
  bool mmap = false;
};

/// What a file says about itself beside its tensors: strings by name.
using Metadata = std::map<std::string, std::string>;

/// All tensors, in the order of their data. `path` is a file; or an index
/// (model.safetensors.index.json) beside its shards; or a folder with an index, with
/// model.safetensors, or with any other *.safetensors. Error{File}, which names file and problem,
/// for what cannot be read or is malformed.
TANDEM_API NamedTensors load_safetensors(const std::string& path, const LoadOptions& options = {});

/// The metadata of one file.
TANDEM_API Metadata safetensors_metadata(const std::string& path);

/// Writes the tensors to `path`, through a temporary file beside it that then takes its place (and
/// keeps its owner and mode; symbolic links are followed, devices and pipes written themselves).
/// Error, and no file, for undefined or traced tensors and for names that are not UTF-8 or not
/// unique.
TANDEM_API void save_safetensors(const std::string& path, const NamedTensors& tensors,
                                 const Metadata& metadata = {});

struct ShardOptions {
  int64_t max_shard_bytes = 5'000'000'000;  // of tensors; a larger one has a file of its own
  Metadata metadata = {};                   // of each file
};

/// Writes the tensors into `folder` (made if it is missing), in this order, as
/// model.safetensors if one file is enough, else as model-00001-of-00003.safetensors and so on with
/// model.safetensors.index.json. Earlier such files that are not of this set are removed last. Each
/// file is replaced in one step, the set is not: who needs that writes into a new folder.
TANDEM_API void save_sharded(const std::string& folder, const NamedTensors& tensors,
                             const ShardOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_IO_SAFETENSORS_H
