// A terminal, as far as the console's editor writes to it: each cell holds the bytes of its character.
#pragma once
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <string>
#include <vector>

struct ScreenModel {
    ScreenModel(size_t w, size_t h) : width(w), height(h), rows(h, std::vector<std::string>(w, " ")) {}
    size_t width, height, row = 0, column = 0;
    bool wraps = false;  ///< behind the last column: the next character goes to the next row
    std::vector<std::vector<std::string>> rows;

    bool is_blank(size_t r) const {
        return std::ranges::all_of(rows[r], [](const std::string& cell) { return cell == " "; });
    }

    void feed(const std::string& bytes) {
        for (size_t at = 0; at < bytes.size();) {
            const auto byte = static_cast<unsigned char>(bytes[at]);
            if (byte == '\x1b') {
                at = sequence(bytes, at + 1);
            } else if (byte == '\r') {
                column = 0, wraps = false, ++at;
            } else if (byte == '\n') {
                newline(), ++at;
            } else {
                ASSERT_GE(byte, 0x20) << "a control character";
                at = character(bytes, at);
            }
        }
    }

private:
    void newline() {
        wraps = false;
        if (row + 1 < height) {
            ++row;
            return;
        }
        rows.erase(rows.begin());
        rows.emplace_back(width, " ");
    }
    /// As terminals that know nothing of joined characters: every code point by itself.
    size_t character(const std::string& bytes, size_t at) {
        utf8proc_int32_t point = 0;
        const auto length =
            utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + at, static_cast<utf8proc_ssize_t>(bytes.size() - at), &point);
        EXPECT_GT(length, 0) << "no UTF-8";
        const auto size = static_cast<size_t>(std::max<utf8proc_ssize_t>(length, 1));
        const int columns = utf8proc_charwidth(point);
        if (columns == 0) {
            size_t last = wraps ? width - 1 : column ? column - 1 : 0;
            if (last > 0 && rows[row][last].empty()) --last;
            rows[row][last] += bytes.substr(at, size);
            return at + size;
        }
        if (wraps || column + static_cast<size_t>(columns) > width) column = 0, newline();
        put(column, bytes.substr(at, size));
        if (columns == 2) put(column + 1, "");
        column += static_cast<size_t>(columns);
        if (column == width) column = width - 1, wraps = true;
        return at + size;
    }
    /// Half of a wide character that is written over leaves a blank.
    void put(size_t c, const std::string& text) {
        std::vector<std::string>& cells = rows[row];
        if (!text.empty() && cells[c].empty() && c > 0) cells[c - 1] = " ";
        if (c + 1 < width && cells[c + 1].empty() && !cells[c].empty() && !text.empty()) cells[c + 1] = " ";
        if (text.empty() && c + 1 < width && cells[c + 1].empty()) cells[c + 1] = " ";
        cells[c] = text;
    }
    size_t sequence(const std::string& bytes, size_t at) {
        EXPECT_EQ(bytes[at], '[');
        size_t end = at + 1;
        while (end < bytes.size() && (bytes[end] < 0x40)) ++end;
        const std::string parameters = bytes.substr(at + 1, end - at - 1);
        const size_t n = parameters.empty() || parameters[0] == '?' ? 0 : std::stoul(parameters), step = std::max<size_t>(n, 1);
        switch (bytes[end]) {
            case 'A':
                row -= std::min(row, step), wraps = false;
                break;
            case 'B':
                row = std::min(row + step, height - 1), wraps = false;
                break;
            case 'C':
                column = std::min(column + step, width - 1), wraps = false;
                break;
            case 'K':
                EXPECT_FALSE(wraps) << "the last column would go";
                for (size_t c = column; c < width; ++c) rows[row][c] = " ";
                break;
            case 'J':
                for (size_t c = column; c < width; ++c) rows[row][c] = " ";
                for (size_t r = row + 1; r < height; ++r) rows[r].assign(width, " ");
                break;
            case 'h':
            case 'l':
            case 'm':
                break;
            default:
                ADD_FAILURE() << "sequence " << parameters << bytes[end];
        }
        return end + 1;
    }
};
