// What factories return that may fail: the value, or why there is none. Nothing gives the value without being asked whether it is there, so
// that no caller can use one that is missing.
#pragma once
#include <memory>
#include <string>
#include <utility>

namespace tegula {

template <class T>
class [[nodiscard]] Made {
public:
    Made(std::shared_ptr<T> value) : value_(std::move(value)) {}
    static Made failed(std::string why) { return Made(std::move(why), nullptr); }
    /// True: `out` holds the value, which is not null. False: `why` says what kept it from being made, and `out` is as it was.
    [[nodiscard]] bool into(std::shared_ptr<T>& out, std::string& why) && {
        if (value_) return out = std::move(value_), true;
        why = std::move(why_);
        return false;
    }

private:
    Made(std::string why, std::nullptr_t) : why_(std::move(why)) {}
    std::shared_ptr<T> value_;
    std::string why_ = "there is none";
};

}  // namespace tegula
