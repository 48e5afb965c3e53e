#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/io/numpy.h>
#include <tandem/ops.h>

#include <set>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "runtime/io/npy.h"
#include "runtime/io/require_usable.h"
#include "runtime/io/zip.h"

namespace tandem {
namespace {

constexpr std::string_view kEnding = ".npy";
constexpr size_t kLongestName = 0xffff;

void check_tensors(const NamedTensors& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    runtime::require_usable("save_npz", name, tensor);
    if (!names.insert(name).second)
      ir::fail(Errc::Argument,
               fmt::format("save_npz: tensor \"{}\": expected each name once, got two", name));
    if (name.size() + kEnding.size() > kLongestName)
      ir::fail(Errc::Argument, fmt::format("save_npz: a name of {} bytes; expected at most {}",
                                           name.size(), kLongestName - kEnding.size()));
  }
}

}  // namespace

NamedTensors load_npz(const std::string& path) {
  return runtime::reading("load_npz", path, [&] {
    const auto archive = runtime::open_tensors(path, /*mapped=*/false);
    NamedTensors tensors;
    for (const runtime::ZipMember& member : runtime::zip_members(*archive)) {
      if (!member.name.ends_with(kEnding))
        ir::fail(Errc::File,
                 fmt::format("{}: is no array; expected a name with .npy", member.name));
      const std::string contents = runtime::zip_contents(*archive, member);
      tensors.emplace_back(member.name.substr(0, member.name.size() - kEnding.size()),
                           runtime::read_npy(*runtime::tensors_in(contents)));
    }
    return tensors;
  });
}

void save_npz(const std::string& path, const NamedTensors& tensors, const NpzOptions& options) {
  check_tensors(tensors);
  ir::FileWriter file(path);
  runtime::ZipWriter archive(options.compress);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.contiguous();
    file.write(archive.member(name + std::string(kEnding), runtime::npy_header(dense),
                              runtime::bytes_of(dense)));
  }
  file.write(archive.directory());
  file.commit();
}

}  // namespace tandem
