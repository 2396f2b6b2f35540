# What scripts/test takes a sample of, and why. The whole is what scripts/test --long runs, and what a build by hand has.
#
# scripts/test sets TEGULA_SAMPLE to a number that follows from the commit; an entry is taken where the hash of its name agrees with that number. The
# same commit takes the same entries everywhere, another one others, and n numbers in a row take all of a row that takes one in n.
if(DEFINED ENV{TEGULA_SAMPLE})
  set(tegula_turn $ENV{TEGULA_SAMPLE})
  message(STATUS "Tests: the sample of TEGULA_SAMPLE=${tegula_turn} (tests/samples.cmake)")
else()
  set(tegula_turn 0)
endif()

# Files of one entry, by position: one in so many.
set(one_in_native 1)
if(DEFINED ENV{TEGULA_SAMPLE})
  set(one_in_native 2)  # cpu.*_plain, cpu.*_permuted: nearly all of their time is LLVM's, once for each kernel
endif()
set(one_in_native_again 3)  # without passes, or under sanitizers: kernels are compiled once more, which is most of the time; all in cpu.whole_*
set(one_in_interpreted 3)   # run.* under sanitizers, which see the same code of the interpreter in most files
set(one_in_transcripts 3)   # cli under sanitizers: starting the command is most of it
set(one_in_played 4)        # on_cpu.run.*: GPUs run all of tests/run as well; always the same files, whose time is known

# Leaves one element in `one_in` in the list named `list`; with ALWAYS the same ones for every commit.
function(tegula_sample list one_in)
  set(kept)
  set(number ${tegula_turn})
  if(ARGN STREQUAL "ALWAYS")
    set(number 0)
  endif()
  foreach(element ${${list}})
    math(EXPR rest "${number} % ${one_in}")
    math(EXPR number "${number} + 1")
    if(rest EQUAL 0)
      list(APPEND kept ${element})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()

# Of the entries of this folder that match `pattern` and no row before, one in `one_in` is taken. The others get the label `left_out`, and their
# programs are not built. With CASES every entry is taken, and runs one in `one_in` of its program's cases.
function(tegula_take pattern one_in)
  get_property(entries DIRECTORY PROPERTY TESTS)
  foreach(entry ${entries})
    get_property(has_row TEST ${entry} PROPERTY tegula_row SET)
    if(has_row OR NOT entry MATCHES "${pattern}")
      continue()
    endif()
    set_property(TEST ${entry} PROPERTY tegula_row "${pattern}")
    string(MD5 number ${entry})
    string(SUBSTRING ${number} 0 7 number)
    math(EXPR number "(0x${number} + $ENV{TEGULA_SAMPLE}) % ${one_in}")
    string(REGEX REPLACE "^unit\\." "" program ${entry})
    if(ARGN STREQUAL "CASES")
      set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${one_in} GTEST_SHARD_INDEX=${number})
    elseif(NOT number EQUAL 0)
      set_property(TEST ${entry} APPEND PROPERTY LABELS left_out)
      if(TARGET ${program} AND TEGULA_SANITIZE)
        set_property(TARGET ${program} PROPERTY EXCLUDE_FROM_ALL TRUE)
      endif()
    endif()
  endforeach()
endfunction()

# The rows; the first that matches decides, and what matches none is taken.
function(tegula_take_samples)
  if(NOT DEFINED ENV{TEGULA_SAMPLE})
    return()
  endif()
  if(TEGULA_SANITIZE)
    # Programs that hand memory over, or on to other threads; lsp.answers runs workspace_test.
    tegula_take("^unit\\.(api|cache|engine|launch|storage|workspace)_test$" 1)
    # Each links the same library, whose code most of them run; building them is half of the time of the sanitized run.
    tegula_take("^unit\\." 3)
    # Programs in the language: the interpreter's and the front end's code is the same in all of them, and fuzz.* runs them besides.
    tegula_take("^(examples|stdlib)\\.[a-z0-9_]+$" 3)
    # The command once more, through pseudo-terminals and pipes.
    tegula_take("^(repl|lsp)\\." 2)
    # The same generator and the same pairs of values on two machines.
    tegula_take("^diff\\.constants" 2)
    return()
  endif()
  # Sweeps of hundreds of like cases, and cases that start compilers; each is 8 to 100 s.
  tegula_take("^unit\\.(cpu_aarch64|cpu_code|cpu_guard|cpu_product|cpu_scalars|cpu_stream|cuda_prelude|emit_tiles|everywhere|gpu_passes|round)_test$" 3 CASES)
  tegula_take("^unit\\.(bounds|channels_random|cpu_extent|cpu_long_kernels|cpu_neighbours|cpu_nest|cpu_packed|cuda_tensor|exchange|gpu_chains|math)_test$" 3 CASES)
  # NVRTC and its disassembly for each narrow format: one case.
  tegula_take("^unit\\.machine_code_test$" 3)
  # A pass of lowering off: eight minutes for all in the long run; all of them off at once is taken always.
  tegula_take("^on_cpu\\.without\\.lowering$" 1)
  tegula_take("^on_cpu\\.without\\." 3)
  # Kernels on the GPU that the CPU plays, whose text is compiled anew for each architecture. Only sm_100 has tensor memory.
  tegula_take("^on_cpu\\..*_sm_100$" 2)
  tegula_take("^on_cpu\\..*_(sm|ptx)_[0-9_]+$" 3)
  tegula_take("^on_cpu\\..*_any_width$" 3)
  tegula_take("^on_cpu\\.(examples|run)\\." 3)
  # Native code once more: without passes, for lesser processors, and for every pair of codes.
  tegula_take("^cpu\\.((expressions|run|examples|unchecked)_no_passes|(expressions|run)_x86-64.*|formats)$" 3)
endfunction()
