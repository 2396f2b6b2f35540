// What was typed before, in this session and in others that share the file: one JSON string a line, added under a lock.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tegula_tool::edit {

class History {
public:
    static constexpr size_t kMost = 10'000;

    /// Reads the file, and makes it and its directories where they lack; empty: kept in memory only.
    explicit History(std::string path = {});
    /// Oldest first.
    const std::vector<std::string>& entries() const { return entries_; }
    /// Blank texts, those that begin with a space, and the one that was added last are not kept.
    void add(std::string_view text);
    /// Why the file is not used. Empty: it is, or that has been taken.
    std::string take_note();

private:
    void read();
    void append(const std::string& line);
    void give_up(const std::string& why);
    std::string path_, note_;
    std::vector<std::string> entries_;
};

}  // namespace tegula_tool::edit
