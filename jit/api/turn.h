// One call at a time on a handle that has `busy`, `ended` and `flag`: sessions and workspaces.
#pragma once
#include "jit/api/handles.h"

namespace tegula::capi {

/// One call on a handle, which keeps it. A second one, from a callback or another thread, is a mistake of the host.
template <class T>
class Turn {
public:
    explicit Turn(T* handle) : handle_(handle), mine_(!handle->busy.exchange(true)) { tegula_retain(handle); }
    ~Turn() {
        if (mine_) handle_->busy.store(false);
        tegula_release(handle_);
    }
    Turn(const Turn&) = delete;
    explicit operator bool() const { return mine_; }

private:
    T* handle_;
    const bool mine_;
};

/// The flag that ends work of a handle. It is also set with the engine's, which may allow runs again since.
template <class T>
const std::atomic<bool>* cancel_flag(T& handle, Engine& engine) {
    std::atomic<bool>& flag = handle.flag.flag();
    flag.store(false);
    if (handle.ended.load() || engine.cancelled().load()) flag.store(true);
    return &flag;
}

}  // namespace tegula::capi
