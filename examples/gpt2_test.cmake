# gpt2 of FOLDER must print its expected.txt.
execute_process(COMMAND ${PROGRAM} ${FOLDER} --tokens 32 --temperature 0 --quiet OUTPUT_VARIABLE text RESULT_VARIABLE status)
file(READ ${FOLDER}/expected.txt expected)
if(NOT status STREQUAL 0 OR NOT text STREQUAL expected)
  message(FATAL_ERROR "expected status 0 and\n${expected}got ${status} and\n${text}")
endif()
