# Writes FILES (the library in the language) as one C++ table of names and texts to OUT.
set(body "// Generated from stdlib/*.tile.\n#include <string_view>\n#include \"jit/engine/stdlib.h\"\nnamespace tegula {\nnamespace {\nconstexpr StdlibFile kFiles[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" escaped "${hex}")
  # One literal per 2000 bytes keeps compilers and editors happy.
  string(REGEX REPLACE "((\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f]))" "\\1\"\n\"" escaped "${escaped}")
  string(APPEND body "{\"${name}\", \"${escaped}\"},\n")
endforeach()
string(APPEND body "};\n}\nstd::span<const StdlibFile> stdlib_files() { return kFiles; }\n}\n")
file(WRITE ${OUT} "${body}")
