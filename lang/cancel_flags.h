// Flags of what runs behind a host's back. All of them can be set at once, also from a signal handler: flags are taken and given back, and none goes
// before the list does.
#pragma once
#include <atomic>
#include <memory>
#include <utility>

namespace tegula {

class CancelFlags {
    struct Node {
        std::atomic<bool> flag{false}, taken{true};
        Node* next = nullptr;
    };

public:
    struct GiveBack {
        void operator()(Node* node) const { node->taken.store(false, std::memory_order_release); }
    };
    /// One flag, not set; owned until it goes.
    class Taken {
    public:
        explicit Taken(Node* node) : node_(node) {}
        std::atomic<bool>& flag() const { return node_->flag; }

    private:
        std::unique_ptr<Node, GiveBack> node_;
    };

    CancelFlags() = default;
    CancelFlags(const CancelFlags&) = delete;
    ~CancelFlags() {
        for (Node* n = first_.load(); n;) delete std::exchange(n, n->next);
    }
    Taken take() {
        for (Node* n = first_.load(std::memory_order_acquire); n; n = n->next) {
            bool free = false;
            if (!n->taken.compare_exchange_strong(free, true, std::memory_order_acquire)) continue;
            n->flag.store(false);
            return Taken(n);
        }
        auto* node = new Node;
        node->next = first_.load();
        while (!first_.compare_exchange_weak(node->next, node, std::memory_order_release)) {
        }
        return Taken(node);
    }
    /// Async-signal-safe.
    void set_all() noexcept {
        for (Node* n = first_.load(std::memory_order_acquire); n; n = n->next) n->flag.store(true);
    }

private:
    std::atomic<Node*> first_{nullptr};
};

}  // namespace tegula
