# tandem_library(NAME [PUBLIC dependency...] [PRIVATE dependency...])
# The static library NAME of the current folder's *.cpp.
function(tandem_library name)
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} ${ARGN})
endfunction()
