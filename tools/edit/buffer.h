// The text that is edited, with its cursor: movement, deletion and its ring, undo. Knows neither keys nor screens.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tegula_tool::edit {

class Buffer {
public:
    const std::string& text() const { return text_; }
    size_t cursor() const { return cursor_; }
    void move_to(size_t at);

    // Movement, in characters as people see them. False: there is nothing more in this direction.
    bool left();
    bool right();
    bool up();  ///< keeps the column over lines that are shorter
    bool down();
    void word_left() { move_to(word_before(cursor_)); }
    void word_right() { move_to(word_behind(cursor_)); }
    void home();
    void end();
    /// All blanks of the cursor's line before the cursor.
    bool only_blanks_before() const;

    void insert(std::string_view text);
    /// Instead of the bytes from `begin` to `end`, with the cursor behind.
    void replace(size_t begin, size_t end, std::string_view text);
    void set(std::string_view text, size_t cursor);  ///< all of it; can be undone
    void reset(std::string_view text);               ///< a new text, without a past
    void erase_left();
    void erase_right();
    void transpose();  ///< the characters around the cursor
    void undo();

    // What is killed can be yanked; kills without other edits between them are one.
    void kill_to_end();  ///< of the line; at its end the newline
    void kill_to_begin();
    void kill_word_left();
    void kill_word_right();
    void kill_blank_word_left();  ///< back to a blank
    void kill_all();
    void yank();
    void yank_other();  ///< directly after a yank: an older one instead of it

    /// Ends a group of edits that `undo` takes back together.
    void separate() { joins_ = false; }

private:
    enum class Last : unsigned char { other, kill_left, kill_right, yank, vertical };
    struct Edit {
        size_t at;
        std::string removed, inserted;
        size_t cursor;  ///< before
    };
    std::string text_;
    size_t cursor_ = 0, column_ = 0;
    std::vector<Edit> past_;
    size_t past_bytes_ = 0;
    std::vector<std::string> ring_;
    size_t yanked_ = 0;  ///< from the newest
    bool joins_ = false;
    Last last_ = Last::other;

    size_t word_before(size_t at) const;
    size_t word_behind(size_t at) const;
    bool vertical(bool down);
    void change(size_t begin, size_t end, std::string_view text, bool join);
    void kill(size_t begin, size_t end, Last direction);
};

}  // namespace tegula_tool::edit
