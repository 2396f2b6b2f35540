// The page of a diagnostic, as `tegula explain CODE` shows it.
#pragma once
#include <string>

#include "lang/diag.h"

namespace tegula {

/// Cause and cure, then a file that has the error and one in which it is mended, where the table has such (diag_examples.def). Lives for ever.
const std::string& diag_page(const DiagRow& row);

}  // namespace tegula
