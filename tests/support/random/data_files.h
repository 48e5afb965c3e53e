// Mutated files of data, for reader_fuzz: tables (CSV), IDX, images (PNG), vocabularies with
// merges.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_DATA_FILES_H
#define TANDEM_TESTS_SUPPORT_RANDOM_DATA_FILES_H

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace tandem::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(random_() % std::max<size_t>(n, 1)); }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class Table>
  auto& of(Table& table) {
    return table[below(std::size(table))];
  }

 private:
  std::mt19937_64 random_;
};

std::string mutated_table(Random& random);
std::string mutated_idx(Random& random);
std::string mutated_image(Random& random);
/// A vocabulary, a line of its own, and merges.
std::string mutated_merges(Random& random);

// What is wrong with how a file was read, or nothing. Errors of readers are thrown.
std::string check_table(const std::string& file);
std::string check_idx(const std::string& file);
std::string check_image(const std::string& file);
std::string check_merges(const std::string& file);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_DATA_FILES_H
