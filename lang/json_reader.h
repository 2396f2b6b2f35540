// Reads JSON text piece by piece, in the order of the text: who knows the form asks for what comes next, and nothing is built that nobody wants. The
// library's own, since a general one follows the locale where it reads numbers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula {

/// Every member that reads is false where something else comes, and then and after it `ok()` is false. Nests 64 deep at most.
class JsonReader {
public:
    explicit JsonReader(std::string_view text) : text_(text) {}
    bool ok() const { return ok_; }
    /// Only white space is left.
    bool at_end();
    /// The first byte of the value that comes: one of { [ " t f n - 0 .. 9; 0: there is none.
    char next();
    bool string(std::string& out);
    bool number(double& out);
    /// Any value.
    bool skip();
    /// Calls `member(name)` in front of the value of each; what it does not read is skipped.
    template <class Member>
    bool object(Member&& member) {
        return list('{', '}', [&] {
            std::string name;
            return string(name) && take(':') && value([&] { member(std::string_view(name)); });
        });
    }
    template <class Item>
    bool array(Item&& item) {
        return list('[', ']', [&] { return value(item); });
    }

private:
    static constexpr int kDeepest = 64;
    bool fail() { return ok_ = false; }
    bool take(char c) { return next() == c ? (++at_, true) : fail(); }
    bool word(std::string_view w);
    bool escape(std::string& out);
    bool hex(uint32_t& out);
    template <class Body>
    bool value(Body&& body) {
        next();
        const size_t before = at_;
        body();
        return ok_ && (at_ != before || skip());
    }
    template <class Element>
    bool list(char open, char close, Element&& element) {
        if (!take(open) || ++depth_ > kDeepest) return fail();
        if (next() == close) return ++at_, --depth_, true;
        do
            if (!element()) return fail();
        while (next() == ',' && ++at_);
        return --depth_, take(close);
    }

    std::string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
    bool ok_ = true;
};

}  // namespace tegula
