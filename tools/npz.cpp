// .npz: .npy files in a ZIP archive, stored or deflated, as numpy.savez and savez_compressed write them. Format: PKWARE's APPNOTE, sections 4.3
// to 4.5.
#include <zlib.h>

#include <algorithm>
#include <optional>

#include "array_files.h"

namespace tegula_tool {

namespace {

constexpr uint64_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kLongestComment = 65535;
constexpr uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50, kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr uint32_t kSee64 = 0xffffffff;  ///< the number stands in the extra field

uint64_t number(std::string_view bytes, size_t at, unsigned count) {
    uint64_t value = 0;
    for (unsigned i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
}

struct Member {
    std::string name;
    unsigned method = 0, flags = 0;
    uint32_t sum = 0;
    uint64_t packed = 0, size = 0, offset = 0;
};

/// The numbers of a large member, which its extra field has in this order where the entry has none.
bool read_extra(std::string_view extra, Member& m) {
    for (size_t at = 0; at + 4 <= extra.size();) {
        const uint64_t id = number(extra, at, 2), length = number(extra, at + 2, 2);
        if (at + 4 + length > extra.size()) return false;
        size_t from = at + 4;
        const size_t end = from + length;
        for (uint64_t* value : {&m.size, &m.packed, &m.offset})
            if (id == 1 && *value == kSee64) {
                if (from + 8 > end) return false;
                *value = number(extra, from, 8);
                from += 8;
            }
        at = end;
    }
    return true;
}

class Archive {
public:
    Archive(const std::string& path, const Source& file, std::string& error) : path_(path), file_(file), error_(error) {}
    bool open();
    bool extract(const Member& m, std::string& out);
    std::vector<Member> members;

private:
    bool fail(const std::string& what) { return error_ = path_ + ": " + what, false; }
    bool directory(uint64_t& begin, uint64_t& size, uint64_t& count);
    const std::string& path_;
    const Source& file_;
    std::string& error_;
};

/// Where the list of members lies.
bool Archive::directory(uint64_t& begin, uint64_t& size, uint64_t& count) {
    const uint64_t tail = std::min(file_.size(), kEndBytes + kLongestComment);
    std::string text;
    if (!file_.read(file_.size() - tail, tail, text, error_)) return false;
    for (size_t at = text.size() < kEndBytes ? std::string::npos : text.size() - kEndBytes; at != std::string::npos;
         at = at ? at - 1 : std::string::npos) {
        if (number(text, at, 4) != kEndMark || at + kEndBytes + number(text, at + 20, 2) != text.size()) continue;
        count = number(text, at + 10, 2);
        size = number(text, at + 12, 4);
        begin = number(text, at + 16, 4);
        if (begin != kSee64 && size != kSee64 && count != 0xffff) return true;
        if (at < 20 || number(text, at - 20, 4) != kLocator64Mark) return fail("the archive's end is damaged (field `zip64`)");
        const uint64_t where = number(text, at - 12, 8);
        std::string end;
        if (where > file_.size() || file_.size() - where < 56) return fail("the archive's end is damaged (field `zip64`)");
        if (!file_.read(where, 56, end, error_)) return false;
        if (number(end, 0, 4) != kEnd64Mark) return fail("the archive's end is damaged (field `zip64`)");
        count = number(end, 32, 8);
        size = number(end, 40, 8);
        begin = number(end, 48, 8);
        return true;
    }
    return fail("truncated: the archive has no list of members (field `end`)");
}

bool Archive::open() {
    uint64_t begin = 0, size = 0, count = 0;
    if (!directory(begin, size, count)) return false;
    if (size > kMaxHeader || begin > file_.size() || size > file_.size() - begin)
        return fail("the list of members lies outside the file (field `directory`)");
    std::string text;
    if (!file_.read(begin, size, text, error_)) return false;
    size_t at = 0;
    for (uint64_t i = 0; i < count; ++i) {
        if (at + kEntryBytes > text.size() || number(text, at, 4) != kEntryMark) return fail("the list of members is damaged (field `directory`)");
        Member m;
        m.flags = static_cast<unsigned>(number(text, at + 8, 2));
        m.method = static_cast<unsigned>(number(text, at + 10, 2));
        m.sum = static_cast<uint32_t>(number(text, at + 16, 4));
        m.packed = number(text, at + 20, 4);
        m.size = number(text, at + 24, 4);
        m.offset = number(text, at + 42, 4);
        const uint64_t name = number(text, at + 28, 2), extra = number(text, at + 30, 2), comment = number(text, at + 32, 2);
        if (at + kEntryBytes + name + extra + comment > text.size()) return fail("the list of members is damaged (field `directory`)");
        m.name = text.substr(at + kEntryBytes, name);
        if (!read_extra(std::string_view(text).substr(at + kEntryBytes + name, extra), m))
            return fail("the list of members is damaged (field `extra`)");
        if (ends_with(m.name, ".npy")) m.name.resize(m.name.size() - 4);
        members.push_back(std::move(m));
        at += kEntryBytes + name + extra + comment;
    }
    return true;
}

bool Archive::extract(const Member& m, std::string& out) {
    const std::string who = "array `" + shown(m.name) + "`";
    if (m.flags & 1) return fail(who + " is encrypted (field `flags`)");
    if (m.method != 0 && m.method != 8)
        return fail(who + " is compressed by method " + std::to_string(m.method) + ", not stored or deflated (field `method`)");
    if (m.size > kMaxData + kMaxHeader) return fail(who + " is too large (field `size`)");
    std::string local;
    if (m.offset > file_.size() || file_.size() - m.offset < kLocalBytes) return fail(who + " lies outside the file (field `offset`)");
    if (!file_.read(m.offset, kLocalBytes, local, error_)) return false;
    if (number(local, 0, 4) != kLocalMark) return fail(who + " does not begin where the list says (field `offset`)");
    const uint64_t begin = m.offset + kLocalBytes + number(local, 26, 2) + number(local, 28, 2);
    if (begin > file_.size() || m.packed > file_.size() - begin) return fail(who + " lies outside the file (field `compressed size`)");
    std::string packed;
    if (!file_.read(begin, m.packed, packed, error_)) return false;
    if (m.method == 0) {
        if (m.packed != m.size) return fail(who + " has two sizes (field `size`)");
        out = std::move(packed);
    } else {
        // Deflate makes at most 1032 bytes of one: a larger promise is none that memory is taken for.
        if (m.size / 1032 > m.packed) return fail(who + " is shorter than the list says (field `size`)");
        out.resize(m.size);
        z_stream z{};
        if (::inflateInit2(&z, -MAX_WBITS) != Z_OK) return fail(who + " does not fit in memory");
        constexpr uint64_t kStep = 1u << 30;  // zlib counts in 32 bits
        uint64_t in = 0, made = 0;
        int code = Z_OK;
        while (code == Z_OK) {
            z.next_in = reinterpret_cast<Bytef*>(packed.data() + in);
            z.avail_in = static_cast<uInt>(std::min(kStep, packed.size() - in));
            z.next_out = reinterpret_cast<Bytef*>(out.data() + made);
            z.avail_out = static_cast<uInt>(std::min(kStep, out.size() - made));
            const uInt had_in = z.avail_in, had_out = z.avail_out;
            code = ::inflate(&z, Z_NO_FLUSH);
            in += had_in - z.avail_in;
            made += had_out - z.avail_out;
            if (code == Z_BUF_ERROR || (code == Z_OK && had_in == z.avail_in && had_out == z.avail_out)) break;
        }
        ::inflateEnd(&z);
        if (code != Z_STREAM_END || made != out.size()) return fail(who + " is damaged or has another size (field `size`)");
    }
    uint32_t sum = 0;
    for (size_t at = 0; at < out.size(); at += uint64_t{1} << 30)
        sum = static_cast<uint32_t>(
            ::crc32(sum, reinterpret_cast<const Bytef*>(out.data() + at), static_cast<uInt>(std::min<size_t>(out.size() - at, 1u << 30))));
    return sum == m.sum || fail(who + " is damaged (field `crc-32`)");
}

}  // namespace

bool begins_zip(std::string_view text) { return text.starts_with("PK\3\4") || text.starts_with("PK\5\6"); }

std::optional<Array> read_npz(const std::string& path, const Source& file, const std::string& name, std::string& error) {
    Archive archive(path, file, error);
    if (!archive.open()) return std::nullopt;
    std::string names;
    const Member* found = nullptr;
    size_t twice = 0;
    for (const Member& m : archive.members) {
        if (&m - archive.members.data() < 10) names += (names.empty() ? "" : ", ") + shown(m.name);
        if (m.name == name || (name.empty() && archive.members.size() == 1)) found = &m, ++twice;
    }
    if (archive.members.size() > 10) names += ", ..";
    if (name.empty() && archive.members.size() > 1)
        error = path + ": the file has several arrays, name one with #NAME: " + names;
    else if (!found)
        error = path + ": no array `" + shown(name) + "`; it has: " + names;
    else if (twice > 1)
        error = path + ": there are several arrays `" + shown(name) + "`";
    std::string text;
    if (!found || twice > 1 || !archive.extract(*found, text)) return std::nullopt;
    Source member;
    const std::string where = path + ": array `" + shown(found->name) + "`";
    member.hold(where, std::move(text));
    return read_npy(where, member, error);
}

}  // namespace tegula_tool
