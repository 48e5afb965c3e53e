// The files that TensorBoard reads: records of the TFRecord format, each a serialised
// tensorflow.Event.
#ifndef TANDEM_RUNTIME_TRAIN_EVENT_FILE_H
#define TANDEM_RUNTIME_TRAIN_EVENT_FILE_H

#include <tandem/train/logs.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::runtime {

/// The CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

/// length (u64), masked checksum of it, data, masked checksum of it; little endian.
std::string tf_record(std::string_view data);

// Serialised events. `time`: seconds since 1970.
std::string version_event(double time);
std::string scalars_event(double time, int64_t step, const train::Values& values);
/// A new session that begins at `step`: TensorBoard drops what earlier files have from there on.
std::string session_start_event(double time, int64_t step);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRAIN_EVENT_FILE_H
