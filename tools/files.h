// Files of the `tandem` command: graphs as text or JSON, tensors as safetensors.
#ifndef TANDEM_TOOLS_FILES_H
#define TANDEM_TOOLS_FILES_H

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::tools {

/// Tensors by name.
using Tensors = std::map<std::string, ir::Buffer>;

/// A whole file's bytes. Error{File} if it cannot be read.
std::string read_file(const std::string& path);

/// Makes `bytes` the contents of `path` (ir/base/file_writer.h).
void write_file(const std::string& path, std::string_view bytes);

/// Error{File} unless all of `bytes` reached what standard output is.
void write_output(std::string_view bytes);

/// The verified graphs of a `.json` file, or the one of a file in the text form.
std::vector<ir::Graph> read_graphs(const std::string& path);

/// The same of a file that must hold one graph. Error{Argument} if it holds another number.
ir::Graph read_graph(const std::string& path);

/// All graphs, in the text form one after the other or as one JSON document.
std::string written(const std::vector<ir::Graph>& graphs, bool json, bool locations);

/// The tensors of a safetensors file's bytes. Error{File} says what is malformed.
Tensors tensors_of(std::string_view bytes);
std::string to_safetensors(const Tensors& tensors);

}  // namespace tandem::tools

#endif  // TANDEM_TOOLS_FILES_H
