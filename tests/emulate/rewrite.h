// The text of a kernel as C++ for this CPU. asm statements of arithmetic, loads and stores become the functions of instructions.h, one per
// instruction; all others become calls that the machine interprets (ptx.h), so that what is run is the PTX that a GPU would get.
#pragma once
#include <string>

namespace tegula::on_cpu {

std::string rewrite(const std::string& cuda);
/// The name behind `extern "C" __global__ void ..`.
std::string entry_of(const std::string& cuda);
/// The headers that rewritten text needs in front of it: the file to include, and the text of all.
std::string header_path();
std::string header_text();

}  // namespace tegula::on_cpu
