# How everything is compiled: the language, warnings, arithmetic, and the tools that make builds fast when they are there.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Fused multiply-adds are formed by a graph rewrite, never by a compiler.
# -Wrestrict: g++ 12 reports correct uses of std::string (GCC bug 105651).
# -Wmissing-field-initializers: designated initializers leave fields out on purpose.
add_compile_options(-Wall -Wextra -Wno-restrict -Wno-missing-field-initializers -ffp-contract=off)

option(TANDEM_DEV "Verify the graph after every pass" OFF)
if(TANDEM_DEV)
  add_compile_definitions(TANDEM_DEV=1)
endif()

# Paths relative to the checkout: what one checkout compiled, another need not (./dev faults works in a copy).
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
