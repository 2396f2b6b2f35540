// The description of a tensor that copies by TMA take (128 bytes, made by the driver).
#pragma once

struct alignas(64) TensorMap {
    unsigned long long words[16];
};
