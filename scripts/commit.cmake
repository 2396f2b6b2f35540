# Writes OUT, a function that gives the commit that SOURCE is at; empty where that is not known. An unchanged file is left alone, so that nothing
# is compiled again for it.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --short=10 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "namespace tegula_tool {\nconst char* commit();\nconst char* commit() { return \"@commit@\"; }\n}  // namespace tegula_tool\n" @ONLY)
