# cmake -DOUT=FILE -DSOURCES=a;b;c -P fingerprint.cmake: a header that names the state of the sources.
set(hashes "")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 all "${hashes}")
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Made by cmake/fingerprint.cmake.
namespace tandem::jit {
inline constexpr char kFingerprint[] = \"${all}\";
}
")
