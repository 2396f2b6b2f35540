// Bytes of a terminal -> keys. Knows what xterm, rxvt, kitty and the Linux console send; passes over sequences that it does not know.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tegula_tool::edit {

enum class Key : uint8_t { text, paste, enter, tab, backspace, erase, left, right, up, down, home, end, page_up, page_down, escape };
struct Press {
    Key key = Key::text;
    bool shift = false, alt = false, ctrl = false;
    std::string text = {};  ///< text: a character in UTF-8, or a byte that is none; with `ctrl` a small letter or sign. paste: what was pasted
    bool operator==(const Press&) const = default;
};

class Decoder {
public:
    /// Keys that are whole with these bytes; what is not waits for more.
    void feed(std::string_view bytes, std::vector<Press>& out);
    /// Something waits that means a key by itself, or is damaged, when nothing follows soon.
    bool waits() const { return !pasting_ && !held_.empty(); }
    /// Nothing has followed.
    void settle(std::vector<Press>& out);

private:
    std::string held_;   ///< the beginning of a sequence or character
    std::string paste_;  ///< what was pasted so far
    bool pasting_ = false;

    size_t take(std::string_view bytes, std::vector<Press>& out);
    size_t take_paste(std::string_view bytes, std::vector<Press>& out);
    size_t take_escape(std::string_view bytes, std::vector<Press>& out);
    size_t take_control_sequence(std::string_view bytes, size_t begin, bool alt, std::vector<Press>& out);
};

}  // namespace tegula_tool::edit
