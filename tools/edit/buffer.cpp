// See buffer.h.
#include "buffer.h"

#include <algorithm>
#include <utility>

#include "clusters.h"

namespace tegula_tool::edit {

void Buffer::move_to(size_t at) {
    cursor_ = std::min(at, text_.size());
    last_ = Last::other;
    joins_ = false;
}

bool Buffer::left() {
    const size_t at = cursor_;
    move_to(before(text_, cursor_));
    return cursor_ != at;
}

bool Buffer::right() {
    const size_t at = cursor_;
    move_to(behind(text_, cursor_));
    return cursor_ != at;
}

bool Buffer::vertical(bool down) {
    const size_t begin = line_begin(text_, cursor_), line = down ? line_end(text_, cursor_) : begin;
    if (down ? line == text_.size() : begin == 0) return false;
    if (last_ != Last::vertical) column_ = columns_of(std::string_view(text_).substr(begin, cursor_ - begin));
    size_t at = down ? line + 1 : line_begin(text_, begin - 1);
    const size_t limit = line_end(text_, at);
    for (size_t column = 0; at < limit;) {
        const Cluster cluster = cluster_at(text_, at);
        if ((column += cluster.columns) > column_) break;
        at += cluster.bytes;
    }
    move_to(at);
    last_ = Last::vertical;
    return true;
}

bool Buffer::up() { return vertical(false); }
bool Buffer::down() { return vertical(true); }
void Buffer::home() { move_to(line_begin(text_, cursor_)); }
void Buffer::end() { move_to(line_end(text_, cursor_)); }

bool Buffer::only_blanks_before() const {
    const size_t begin = line_begin(text_, cursor_);
    return is_blank(std::string_view(text_).substr(begin, cursor_ - begin));
}

size_t Buffer::word_before(size_t at) const {
    while (at > 0 && !is_word_at(text_, before(text_, at))) at = before(text_, at);
    while (at > 0 && is_word_at(text_, before(text_, at))) at = before(text_, at);
    return at;
}

size_t Buffer::word_behind(size_t at) const {
    while (at < text_.size() && !is_word_at(text_, at)) at = behind(text_, at);
    while (is_word_at(text_, at)) at = behind(text_, at);
    return at;
}

void Buffer::change(size_t begin, size_t end, std::string_view text, bool join) {
    constexpr size_t kMostPast = 4096, kMostBytes = 32u << 20;
    if (begin == end && text.empty()) return;
    if (join && joins_ && !past_.empty() && past_.back().at + past_.back().inserted.size() == begin && begin == end) {
        past_.back().inserted += text;
    } else {
        past_.push_back({begin, text_.substr(begin, end - begin), std::string(text), cursor_});
    }
    past_bytes_ += end - begin + text.size();
    for (; past_.size() > kMostPast || (past_bytes_ > kMostBytes && past_.size() > 1); past_.erase(past_.begin()))
        past_bytes_ -= past_[0].removed.size() + past_[0].inserted.size();
    text_.replace(begin, end - begin, text);
    move_to(begin + text.size());
    joins_ = join;
}

void Buffer::insert(std::string_view text) {
    const bool word = is_word_at(text, 0) && (cursor_ == 0 || is_word_at(text_, before(text_, cursor_)) || !joins_);
    if (!word) joins_ = false;
    change(cursor_, cursor_, text, true);
}

void Buffer::replace(size_t begin, size_t end, std::string_view text) {
    end = std::min(end, text_.size());
    change(std::min(begin, end), end, text, false);
}

void Buffer::set(std::string_view text, size_t cursor) {
    if (text != text_) replace(0, text_.size(), std::string(text));
    move_to(cursor);
}

void Buffer::reset(std::string_view text) {
    text_ = text;
    past_.clear();
    past_bytes_ = 0;
    move_to(text_.size());
}

void Buffer::erase_left() { replace(before(text_, cursor_), cursor_, {}); }
void Buffer::erase_right() { replace(cursor_, behind(text_, cursor_), {}); }

void Buffer::transpose() {
    const size_t begin = line_begin(text_, cursor_), end = line_end(text_, cursor_);
    const size_t middle = cursor_ == end ? before(text_, cursor_) : cursor_;
    if (middle <= begin || middle >= end) return;
    const size_t first = before(text_, middle), last = behind(text_, middle);
    replace(first, last, text_.substr(middle, last - middle) + text_.substr(first, middle - first));
}

void Buffer::undo() {
    if (past_.empty()) return;
    const Edit edit = std::move(past_.back());
    past_.pop_back();
    past_bytes_ -= std::min(past_bytes_, edit.removed.size() + edit.inserted.size());
    text_.replace(edit.at, edit.inserted.size(), edit.removed);
    move_to(edit.cursor);
}

void Buffer::kill(size_t begin, size_t end, Last direction) {
    constexpr size_t kMostKilled = 32;
    if (begin == end) return;
    const bool goes_on = last_ == Last::kill_left || last_ == Last::kill_right;
    const std::string killed = text_.substr(begin, end - begin);
    if (!goes_on || ring_.empty()) {
        ring_.push_back(killed);
        if (ring_.size() > kMostKilled) ring_.erase(ring_.begin());
    } else {
        ring_.back() = direction == Last::kill_left ? killed + ring_.back() : ring_.back() + killed;
    }
    replace(begin, end, {});
    last_ = direction;
}

void Buffer::kill_to_end() {
    const size_t end = line_end(text_, cursor_);
    kill(cursor_, end == cursor_ ? std::min(end + 1, text_.size()) : end, Last::kill_right);
}
void Buffer::kill_to_begin() { kill(line_begin(text_, cursor_), cursor_, Last::kill_left); }
void Buffer::kill_word_left() { kill(word_before(cursor_), cursor_, Last::kill_left); }
void Buffer::kill_word_right() { kill(cursor_, word_behind(cursor_), Last::kill_right); }
void Buffer::kill_all() { kill(0, text_.size(), Last::other); }

void Buffer::kill_blank_word_left() {
    constexpr std::string_view kBlank = " \t\n";
    size_t at = cursor_;
    while (at > 0 && kBlank.find(text_[at - 1]) != std::string_view::npos) --at;
    while (at > 0 && kBlank.find(text_[at - 1]) == std::string_view::npos) --at;
    kill(at, cursor_, Last::kill_left);
}

void Buffer::yank() {
    if (ring_.empty()) return;
    yanked_ = 0;
    replace(cursor_, cursor_, ring_.back());
    last_ = Last::yank;
}

void Buffer::yank_other() {
    if (last_ != Last::yank || ring_.size() < 2) return;
    const size_t length = ring_[ring_.size() - 1 - yanked_].size();
    yanked_ = (yanked_ + 1) % ring_.size();
    replace(cursor_ - length, cursor_, ring_[ring_.size() - 1 - yanked_]);
    last_ = Last::yank;
}

}  // namespace tegula_tool::edit
