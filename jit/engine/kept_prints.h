// What runs print, on its way to the host. Of two runs of one launch only one is shown, and when the first of them fails there is no other: what it
// printed is kept until that is known.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace tegula {

using Print = std::function<void(std::string_view)>;

/// Programs print lines, hosts are given text.
inline Print with_line_ends(const Print& print) {
    return print ? [&print](std::string_view line) { print(std::string(line) + "\n"); } : Print();
}

class KeptPrints {
public:
    /// Takes prints; valid as long as this object.
    Print keeper() {
        return [this](std::string_view text) { keep(text); };
    }
    void keep(std::string_view text) {
        texts_.emplace_back(text);
        for (bytes_ += text.size() + sizeof(std::string); bytes_ > kMost && texts_.size() > 1; ++left_out_) {
            bytes_ -= texts_.front().size() + sizeof(std::string);
            texts_.pop_front();
        }
    }
    /// Hands over what was kept, once; a line says what was left out.
    void show(const Print& print) {
        if (!print) return;
        if (left_out_) print("(" + std::to_string(left_out_) + " earlier prints are left out)\n");
        for (const std::string& text : texts_) print(text);
        texts_.clear();
        bytes_ = left_out_ = 0;
    }

private:
    static constexpr size_t kMost = size_t{64} << 20;  ///< bytes; the last prints before a failure say most about it
    std::deque<std::string> texts_;
    size_t bytes_ = 0, left_out_ = 0;
};

}  // namespace tegula
