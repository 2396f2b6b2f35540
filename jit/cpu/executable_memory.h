// May this process make memory executable that it has written?
#pragma once
#include <string>

namespace tegula::cpu {

/// Empty: it may. Else why not: systems can refuse it (MemoryDenyWriteExecute of systemd, execmem of SELinux).
std::string executable_memory_refused();

}  // namespace tegula::cpu
