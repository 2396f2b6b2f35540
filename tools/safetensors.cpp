// .safetensors, and models in several such files. Format: huggingface/safetensors README.
#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "array_files.h"

namespace tegula_tool {

namespace {

/// Eight bytes: the header's length.
uint64_t safetensors_header(std::string_view text) {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[i]);
    return length;
}

/// A JSON object that nests at most `deepest` levels and names no member twice: readers differ in which of two they take. Else nothing, and why.
std::optional<nlohmann::json> read_object(const std::string& text, int deepest, std::string& why) {
    using Event = nlohmann::json::parse_event_t;
    int seen = 0;
    std::optional<std::string> twice;
    std::vector<std::set<std::string>> names(static_cast<size_t>(deepest) + 2);  // of the open objects, by depth
    const auto look = [&](int depth, Event event, const nlohmann::json& value) {
        seen = std::max(seen, depth);
        if (depth > deepest) return false;
        const auto at = static_cast<size_t>(depth);
        if (event == Event::object_start) names[at + 1].clear();
        if (event == Event::key && !names[at].insert(value.get<std::string>()).second && !twice) twice = value.get<std::string>();
        return true;
    };
    auto object = nlohmann::json::parse(text, look, false);
    if (object.is_discarded() || !object.is_object() || seen > deepest) return why = "is not a JSON object", std::nullopt;
    if (twice) return why = "has `" + shown(*twice) + "` twice", std::nullopt;
    return object;
}

/// Extents under `field`; a reason when they are not usable.
std::string read_extents(const nlohmann::json& object, const std::string& field, std::vector<int64_t>& extents) {
    const auto list = object.find(field);
    if (list == object.end() || !list->is_array() || list->size() > 8) return " has no usable " + field + " (field `" + field + "`)";
    extents.clear();
    for (const auto& e : *list) {
        if (!e.is_number_unsigned() || e.get<uint64_t>() > kMaxData) return " has a bad extent (field `" + field + "`)";
        extents.push_back(static_cast<int64_t>(e.get<uint64_t>()));
    }
    return {};
}

/// The range of a tensor's bytes in a file with `have` of them; nothing when it is none.
std::optional<std::pair<uint64_t, uint64_t>> byte_range(const nlohmann::json& entry, uint64_t have) {
    const auto offsets = entry.find("data_offsets");
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) return std::nullopt;
    const nlohmann::json &begin = (*offsets)[0], &end = (*offsets)[1];
    if (!begin.is_number_unsigned() || !end.is_number_unsigned()) return std::nullopt;
    const std::pair range(begin.get<uint64_t>(), end.get<uint64_t>());
    return range.first <= range.second && range.second <= have ? std::optional(range) : std::nullopt;
}

/// The members of one tensor's header entry, whose range is usable; a reason when they are not.
std::string tensor_entry(const nlohmann::json& entry, uint64_t have, Array& array, uint64_t& begin, uint64_t& bytes, unsigned& bits) {
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) return " has no type (field `dtype`)";
    const DtypeRow* row = nullptr;
    for (const DtypeRow& r : dtypes())
        if (r.safetensors && dtype->get_ref<const std::string&>() == r.safetensors) row = &r;
    if (!row) return ": type `" + shown(dtype->get_ref<const std::string&>(), 40) + "` is not supported (field `dtype`)";
    array.type = row->type;
    bits = row->bits;
    if (const std::string why = read_extents(entry, "shape", array.extents); !why.empty()) return why;
    if (row->parts > 1 && array.extents.size() == 8) return " has more than 7 extents of complex numbers (field `shape`)";
    if (row->parts > 1) array.extents.push_back(row->parts);
    const auto need = array_bytes(array.extents, row->bits);
    if (!need)
        return array_bytes(array.extents, 8) && row->bits < 8 ? " does not fill whole bytes (field `shape`)"
                                                              : " has a shape that is too large (field `shape`)";
    const auto range = byte_range(entry, have);
    if (!range || range->second - range->first != *need) return " lies outside the file or has another size (field `data_offsets`)";
    begin = range->first;
    bytes = *need;
    return {};
}

/// What the format forbids, whichever tensor is wanted: others would see other data in such a file. Empty when all is well.
std::string header_problem(const nlohmann::json& header, uint64_t have) {
    std::vector<std::tuple<uint64_t, uint64_t, std::string>> ranges;
    for (const auto& [key, value] : header.items()) {
        if (!value.is_object())
            return key == "__metadata__" ? "the metadata is no JSON object (field `__metadata__`)"
                                         : "tensor `" + shown(key) + "` is not described by a JSON object (field `header`)";
        if (key == "__metadata__") {
            for (const auto& [name, text] : value.items())
                if (!text.is_string()) return "the metadata `" + shown(name) + "` is no string (field `__metadata__`)";
            continue;
        }
        const auto range = byte_range(value, have);
        if (!range) return "tensor `" + shown(key) + "` has no usable offsets inside the file (field `data_offsets`)";
        if (range->first < range->second) ranges.emplace_back(range->first, range->second, key);
    }
    std::sort(ranges.begin(), ranges.end());
    uint64_t until = 0;
    const std::string* other = nullptr;
    const std::string nobody = "bytes of the data belong to no tensor (field `data_offsets`)";
    for (const auto& [begin, end, name] : ranges) {
        if (begin < until) return "the bytes of the tensors `" + shown(*other) + "` and `" + shown(name) + "` overlap (field `data_offsets`)";
        if (begin > until) return nobody;
        until = end, other = &name;
    }
    return until == have ? "" : nobody;
}

/// What `__metadata__` says of a packed tensor.
std::optional<std::string> description(const nlohmann::json& header, const std::string& name) {
    const auto all = header.find("__metadata__");
    if (all == header.end() || !all->is_object()) return std::nullopt;
    const auto it = all->find("tegula." + name);
    return it != all->end() && it->is_string() ? std::optional(it->get<std::string>()) : std::nullopt;
}

/// Does `key` hold scales of a packed tensor?
bool is_part(const nlohmann::json& header, const std::string& key) {
    for (const std::string_view part : {".scales", ".tensor_scale"})
        if (ends_with(key, part) && description(header, key.substr(0, key.size() - part.size()))) return true;
    return false;
}

/// The description of a packed tensor; a reason when it is not usable. Whether its bytes fit is the library's to say.
std::string packed_entry(const std::string& text, Array& array) {
    std::string why;
    const auto object = read_object(text, 3, why);
    if (!object) return " has no usable description (field `__metadata__`): it " + why;
    const nlohmann::json& about = *object;
    const auto text_of = [&](const char* field) {
        const auto it = about.find(field);
        std::string found = it != about.end() && it->is_string() ? it->get<std::string>() : std::string();
        return found.find('\0') == std::string::npos ? found : std::string();  // a name ends there for others
    };
    array.type = text_of("type");
    array.layout = text_of("layout");
    if (array.type.empty()) return " has no type (field `type`)";
    if (array.layout.empty()) return " has no layout (field `layout`)";
    const std::string order = text_of("order");
    const auto [end, code] = std::from_chars(order.data(), order.data() + order.size(), array.order, 16);
    if (order.size() != 16 || code != std::errc() || end != order.data() + order.size() || !array.order) return " has no usable hash (field `order`)";
    return read_extents(about, "extents", array.extents);
}

/// The header of a file, which is as the format wants it, and where the data begins.
std::optional<nlohmann::json> read_header(const std::string& path, const Source& file, uint64_t& data, std::string& error) {
    const auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    std::string text;
    if (file.size() < 8) return fail("truncated (field `header length`)");
    if (!file.read(0, 8, text, error)) return std::nullopt;
    const uint64_t length = safetensors_header(text);
    if (length > file.size() - 8) return fail("truncated (field `header length`)");
    if (length > kMaxHeader) return fail("the header is larger than 8 MiB (field `header length`)");
    if (!file.read(8, length, text, error)) return std::nullopt;
    std::string why;
    auto header = read_object(text, 8, why);  // a header nests three levels
    if (!header) return fail("the header " + why + " (field `header`)");
    if (why = header_problem(*header, file.size() - 8 - length); !why.empty()) return fail(why);
    data = 8 + length;
    return header;
}

/// The names of the tensors, without the parts of packed ones.
std::vector<std::string> tensor_names(const nlohmann::json& header) {
    std::vector<std::string> names;
    for (const auto& [key, value] : header.items())
        if (key != "__metadata__" && !is_part(header, key)) names.push_back(key);
    return names;
}

/// The first names of a list, for a message, and the one that is meant most likely.
std::string listed(const std::vector<std::string>& names) {
    constexpr size_t kMost = 10;
    std::string out;
    for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i ? ", " : "") + shown(names[i]);
    return names.size() > kMost ? out + ", .." : out;
}

/// The file: a header, then the data.
std::string with_header(const nlohmann::json& header, const std::string& data) {
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    std::string out;
    for (int i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i) & 255);
    return out + text + data;
}

/// Adds a tensor and its bytes.
void add(nlohmann::json& header, std::string& data, const std::string& name, const char* dtype, const nlohmann::json& shape,
         const std::string& bytes) {
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
}

void add_packed(nlohmann::json& header, std::string& data, const std::string& name, const Array& array) {
    for (const auto& [part, bytes] : {std::pair("", &array.data), {".scales", &array.scales}, {".tensor_scale", &array.tensor_scale}})
        if (!*part || !bytes->empty()) add(header, data, name + part, "U8", {bytes->size()}, *bytes);
    char order[17];
    std::snprintf(order, sizeof order, "%016llx", static_cast<unsigned long long>(array.order));
    const nlohmann::json about = {{"type", array.type}, {"extents", array.extents}, {"layout", array.layout}, {"order", order}};
    header["__metadata__"]["tegula." + name] = about.dump();
}

}  // namespace

bool begins_safetensors(std::string_view text) { return text.size() >= 8 && safetensors_header(text) > 1 && safetensors_header(text) <= kMaxHeader; }

std::optional<Array> read_safetensors(const std::string& path, const Source& file, const std::string& wanted, std::string& error) {
    auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    uint64_t data = 0;
    const auto object = read_header(path, file, data, error);
    if (!object) return std::nullopt;
    const nlohmann::json& header = *object;
    const std::vector<std::string> names = tensor_names(header);
    if (wanted.empty() && names.size() > 1) return fail("the file has several tensors, name one with #NAME: " + listed(names));
    const std::string name = wanted.empty() && !names.empty() ? names.front() : wanted;
    const auto it = header.find(name);
    if (names.empty() || name == "__metadata__" || it == header.end()) return fail("no tensor `" + shown(name) + "`; it has: " + listed(names));
    unsigned bits = 0;
    const auto read = [&](const nlohmann::json& entry, const std::string& what, Array& array) {
        uint64_t begin = 0, bytes = 0;
        if (const std::string why = tensor_entry(entry, file.size() - data, array, begin, bytes, bits); !why.empty())
            return error = path + ": tensor `" + shown(what) + "`" + why, false;
        return file.read(data + begin, bytes, array.data, error);
    };
    Array array;
    if (!read(*it, name, array)) return std::nullopt;
    if (const auto about = description(header, name)) {
        if (array.type != "u8" || array.extents.size() != 1) return fail("packed tensor `" + shown(name) + "` is not a row of bytes (field `dtype`)");
        if (const std::string why = packed_entry(*about, array); !why.empty()) return fail("packed tensor `" + shown(name) + "`" + why);
        for (const auto& [part, to] : {std::pair(".scales", &array.scales), {".tensor_scale", &array.tensor_scale}}) {
            const auto at = header.find(name + part);
            Array bytes;
            if (at == header.end()) continue;
            if (!read(*at, name + part, bytes)) return std::nullopt;
            *to = std::move(bytes.data);
        }
        if (array.tensor_scale.size() != (array.scales.empty() ? 0 : 8))
            return fail("packed tensor `" + shown(name) + "` has no scale of 8 bytes (field `tensor_scale`)");
        return array;
    }
    const auto [row, rows] = rows_of(array.extents);
    if (array.type == "bool") array.data = pack_bools(array.data, array.extents, false);
    if (bits < 8) array.data = padded_rows(array.data, row, rows, bits);
    return array;
}

std::optional<std::vector<std::string>> safetensors_names(const std::string& path, const Source& file, std::string& error) {
    uint64_t data = 0;
    const auto header = read_header(path, file, data, error);
    return header ? std::optional(tensor_names(*header)) : std::nullopt;
}

std::optional<std::string> safetensors_text(const NamedArrays& arrays, std::string& error) {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [given, array] : arrays) {
        const std::string name = given.empty() ? "data" : given;
        if (!array.layout.empty()) {
            add_packed(header, data, name, array);
            continue;
        }
        const DtypeRow* row = nullptr;
        for (const DtypeRow& r : dtypes())
            if (!row && r.safetensors && r.parts == 1 && array.type == r.type && array_bytes(array.extents, r.bits)) row = &r;
        if (!row || array.column_major) {
            error = row ? "column-major arrays cannot be written to .safetensors" : "type " + array.type + " has no safetensors type";
            return std::nullopt;
        }
        const auto [length, rows] = rows_of(array.extents);
        add(header, data, name, row->safetensors, array.extents,
            array.type == "bool" ? unpack_bools(array.data, array.extents, false) : dense_rows(array.data, length, rows, row->bits));
    }
    return with_header(header, data);
}

bool is_index(std::string_view path) { return path.ends_with(".safetensors.index.json"); }

namespace {

/// Names in an index lead to files beside it.
bool is_beside(const std::string& name) {
    return !name.empty() && name.find('/') == name.npos && name.find('\0') == name.npos && name != "." && name != ".." && is_safetensors(name);
}

/// The file of each tensor by an index.
std::optional<std::map<std::string, std::string>> read_index(const std::string& path, Access access, std::string& error) {
    const auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    Source file;
    std::string text, why;
    const auto begins = [](std::string_view) { return true; };
    if (!file.open(path, begins, access, error)) return std::nullopt;
    constexpr uint64_t kMaxIndex = uint64_t{64} << 20;
    if (file.size() > kMaxIndex) return fail("the index is larger than 64 MiB");
    if (!file.read(0, file.size(), text, error)) return std::nullopt;
    const auto index = read_object(text, 8, why);
    if (!index) return fail("the index " + why);
    const auto map = index->find("weight_map");
    if (map == index->end() || !map->is_object()) return fail("the index has no map of tensors to files (field `weight_map`)");
    std::map<std::string, std::string> files;
    for (const auto& [tensor, name] : map->items()) {
        if (!name.is_string() || !is_beside(name.get_ref<const std::string&>()))
            return fail("tensor `" + shown(tensor) + "` is in no .safetensors file beside the index (field `weight_map`)");
        files.emplace(tensor, name.get<std::string>());
    }
    return files;
}

/// Names of the files of a directory with such an ending, in order.
std::vector<std::string> files_in(const std::string& directory, bool (*wanted)(std::string_view name)) {
    std::vector<std::string> names;
    if (DIR* const dir = ::opendir(directory.c_str())) {
        while (const dirent* entry = ::readdir(dir))
            if (wanted(entry->d_name)) names.emplace_back(entry->d_name);
        ::closedir(dir);
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// The file of each tensor of a directory: by its index where there is one, else by the headers.
std::optional<std::map<std::string, std::string>> read_directory(const std::string& path, Access access, std::string& error) {
    const auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    const std::vector<std::string> indices = files_in(path, is_index);
    if (indices.size() > 1) return fail("the directory has several indices, name one: " + listed(indices));
    if (indices.size() == 1) return read_index(path + "/" + indices.front(), access, error);
    const std::vector<std::string> names = files_in(path, [](std::string_view name) { return name.ends_with(".safetensors"); });
    if (names.empty()) return fail("is a directory, and has no .safetensors files");
    std::map<std::string, std::string> files;
    for (const std::string& name : names) {
        Source file;
        if (!file.open(path + "/" + name, begins_safetensors, access, error)) return std::nullopt;
        const auto tensors = safetensors_names(path + "/" + name, file, error);
        if (!tensors) return std::nullopt;
        for (const std::string& tensor : *tensors)
            if (const auto [at, added] = files.emplace(tensor, name); !added)
                return fail("tensor `" + shown(tensor) + "` is in " + shown(at->second) + " and in " + shown(name) + "; name the file");
    }
    return files;
}

}  // namespace

std::optional<Array> read_sharded(const std::string& path, const std::string& name, Access access, std::string& error) {
    const auto fail = [&](const std::string& what) {
        error = path + ": " + what;
        return std::nullopt;
    };
    const auto files = is_index(path) ? read_index(path, access, error) : read_directory(path, access, error);
    if (!files) return std::nullopt;
    std::vector<std::string> names;
    for (const auto& [tensor, file] : *files) names.push_back(tensor);
    if (name.empty() && names.size() != 1) return fail("the model has several tensors, name one with #NAME: " + listed(names));
    const auto at = files->find(name.empty() ? names.front() : name);
    if (at == files->end()) return fail("no tensor `" + shown(name) + "`; it has: " + listed(names));
    const std::string folder = is_index(path) ? path.substr(0, path.rfind('/') + 1) : path + "/";
    Source file;
    if (!file.open(folder + at->second, begins_safetensors, access, error)) return std::nullopt;
    return read_safetensors(folder + at->second, file, at->first, error);
}

}  // namespace tegula_tool
