// `tegula pack`: an array file in another type and storage order, and back; what that does to its values is said.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "buffers.h"
#include "tool.h"

namespace tegula_tool {

namespace {

using Done = tegula::Result<tegula::Unit>;
constexpr double kMuchSaturated = 0.01;  ///< share of the values that a warning is given for

/// The numbers of a tensor in rows, as f64, some rows at a time.
class Rows {
public:
    Rows(const tegula::Module& module, Buffer& buffer) : module_(module), b_(buffer) {
        length_ = b_.extents.empty() ? 1 : b_.extents.back();
        rows_ = 1;
        for (size_t d = 0; d + 1 < b_.extents.size(); ++d) rows_ *= b_.extents[d];
        row_bytes_ = module_.tensor_bytes(b_.type, "row", std::vector<int64_t>{1, length_}).value().elements;
    }
    int64_t length() const { return length_; }
    int64_t rows() const { return rows_; }
    int64_t step() const {  ///< rows that are handled at a time
        constexpr int64_t kElements = 1 << 20;
        return std::max<int64_t>(1, kElements / std::max<int64_t>(length_, 1));
    }
    Done read(int64_t begin, int64_t end, std::vector<double>& out) {
        out.resize(static_cast<size_t>((end - begin) * length_));
        return module_.copy(plain(out, end - begin), part(begin, end));
    }
    Done write(int64_t begin, int64_t end, std::vector<double>& values) { return module_.copy(part(begin, end), plain(values, end - begin)); }

private:
    tegula::Tensor plain(std::vector<double>& values, int64_t rows) const {
        return {values.data(), values.size() * sizeof(double), "f64", {rows, length_}};
    }
    tegula::Tensor part(int64_t begin, int64_t end) {
        return {
            b_.data.data() + static_cast<size_t>(begin) * row_bytes_, static_cast<size_t>(end - begin) * row_bytes_, b_.type, {end - begin, length_}};
    }
    const tegula::Module& module_;
    Buffer& b_;
    int64_t length_ = 1, rows_ = 1;
    size_t row_bytes_ = 0;
};

/// What lies beyond the largest and the smallest number of a type rounds to none of its neighbours.
struct Range {
    double lowest = 0, largest = 0;  ///< numbers of the type
    double above = 0, below = 0;     ///< from here on a value saturates
    bool saturates(double v) const { return v > above || v < below; }
};

/// The range of a type, by conversions alone.
Range range_of(const tegula::Module& module, const std::string& type) {
    Buffer one{"f64", "row", {1}, 0, std::vector<uint8_t>(8), {}, {}};
    const auto through = [&](double v) {
        std::memcpy(one.data.data(), &v, sizeof v);
        Buffer there, back;
        if (!convert(module, one, type, "row", there) || !convert(module, there, "f64", "row", back)) return std::nan("");
        std::memcpy(&v, back.data.data(), sizeof v);
        return v;
    };
    /// The last double from `low` on, in the order of their bits, for which `holds`, which is so for `low`.
    const auto last = [](double low, double high, const auto& holds) {
        uint64_t from = std::bit_cast<uint64_t>(low), to = std::bit_cast<uint64_t>(high);
        while (from < to) {
            const uint64_t middle = from + (to - from + 1) / 2;
            if (holds(std::bit_cast<double>(middle)))
                from = middle;
            else
                to = middle - 1;
        }
        return std::bit_cast<double>(from);
    };
    constexpr double kMost = std::numeric_limits<double>::max();
    const auto end = [&](double sign, double& number) {
        const double reached = last(0.0, kMost, [&](double v) { return std::isfinite(through(sign * v)); });
        number = through(sign * reached);
        if (!std::isfinite(number) || number * sign <= 0) number = 0;
        if (number == 0) return 0.0;
        // Half a step above the largest number is as far as the half step below it that rounds to it.
        const double still_less = last(0.0, std::fabs(number), [&](double v) { return through(sign * v) != number; });
        return number + sign * (std::fabs(number) - still_less);
    };
    Range out;
    out.above = end(1, out.largest);
    out.below = end(-1, out.lowest);
    return out;
}

struct Loss {
    uint64_t all = 0, saturated = 0, vanished = 0;
    double largest = 0;
    int64_t row = 0, column = 0;  ///< of the largest error
    void add(double value, double got, bool saturates, int64_t r, int64_t c) {
        ++all;
        saturated += saturates;
        vanished += value != 0 && got == 0;
        const double error = std::fabs(value - got);
        if (error > largest) largest = error, row = r, column = c;
    }
};

/// What has a scale of its own.
struct Scaling {
    int64_t group = 0;   ///< elements along a row, INT64_MAX: all of it; 0: nothing
    bool whole = false;  ///< the tensor
    bool on() const { return whole || group > 0; }
};

class Pack {
public:
    explicit Pack(Session& session) : session_(session), o_(session.options) {}
    int operator()();

private:
    bool fail(Exit code, const std::string& message) { return code_ = session_.fail(code, message), false; }
    template <class T>
    bool accept(const tegula::Result<T>& result) {
        session_.show(result.diagnostics());
        if (!result) code_ = session_.exit_code(result.status());
        return static_cast<bool>(result);
    }
    bool read_specs();
    bool read_scaling();
    bool load();
    bool quantise();
    bool find_scales(Rows& rows);
    bool compare(Rows& from, Rows& to);
    bool write();
    void report();
    double& scale_at(int64_t row, int64_t column) {
        return scales_[static_cast<size_t>(scaling_.whole ? 0 : row * groups_ + column / scaling_.group)];
    }
    std::string loss_text() const;

    Session& session_;
    const Options& o_;
    int code_ = ok;
    tegula::Module module_;
    Spec in_, out_;
    Scaling scaling_;
    Buffer from_, to_;
    std::string type_, layout_;
    int64_t groups_ = 1;  ///< of a row
    std::vector<double> scales_;
    Range range_;
    Loss loss_;
};

bool Pack::read_specs() {
    if (!o_.with.empty() && !session_.load(o_.with, module_, code_)) return false;
    if (o_.with.empty()) {
        auto empty = session_.engine.load("edition 1;\n", "<none>");
        if (!accept(empty)) return false;
        module_ = empty.value();
    }
    if (const std::string why = read_spec(o_.in, in_); !why.empty()) return fail(usage, o_.in + ": " + why);
    if (const std::string why = read_spec(o_.out, out_); !why.empty()) return fail(usage, o_.out + ": " + why);
    if (!out_.type.empty()) return fail(usage, "the type is given by --type");
    layout_ = o_.layout.empty() ? "row" : o_.layout;
    if (!o_.layout.empty() && !is_safetensors(out_.path)) return fail(usage, out_.path + ": packed arrays are written to .safetensors");
    return read_scaling();
}

bool Pack::read_scaling() {
    const std::string& s = o_.scale;
    uint64_t group = 0;
    const bool grouped = s.starts_with("group=");
    if (grouped) {
        const auto [end, error] = std::from_chars(s.data() + 6, s.data() + s.size(), group);
        if (error != std::errc() || end != s.data() + s.size() || group == 0 || group > INT64_MAX)
            return fail(usage, "--scale " + s + ": write group=64, with a number from 1 up");
    }
    scaling_.whole = s == "tensor";
    scaling_.group = grouped ? static_cast<int64_t>(group) : s == "row" ? INT64_MAX : 0;
    constexpr std::string_view kWords[] = {"none", "tensor", "row", "group=64"};
    if (!scaling_.on() && s != "none") return fail(usage, "--scale: `" + s + "` is none of none, tensor, row, group=64" + did_you_mean(s, kWords));
    return !scaling_.on() || is_safetensors(out_.path) || fail(usage, out_.path + ": an array and its scales are written to .safetensors");
}

bool Pack::load() {
    std::string error;
    const auto array = read_array(in_.path, in_.tensor, error);
    if (!array) return fail(io, error);
    from_ = buffer_of(*array);
    const auto viewed = view(module_, in_, from_, error);
    if (!error.empty()) return fail(run_failed, error);
    if (!accept(viewed)) return false;
    type_ = !o_.type.empty() ? o_.type : !in_.type.empty() ? in_.type : from_.type;
    return true;
}

bool Pack::find_scales(Rows& rows) {
    groups_ = scaling_.group == INT64_MAX ? 1 : scaling_.whole ? 1 : (rows.length() + scaling_.group - 1) / scaling_.group;
    scales_.assign(static_cast<size_t>(scaling_.whole ? 1 : rows.rows() * groups_), 0);
    std::vector<double> values;
    for (int64_t at = 0; at < rows.rows(); at += rows.step()) {
        const int64_t end = std::min(at + rows.step(), rows.rows());
        if (!accept(rows.read(at, end, values))) return false;
        for (size_t i = 0; i < values.size(); ++i) {
            double& most = scale_at(at + static_cast<int64_t>(i) / rows.length(), static_cast<int64_t>(i) % rows.length());
            if (std::isfinite(values[i])) most = std::max(most, std::fabs(values[i]));
        }
    }
    const double reach = range_.lowest == 0 ? range_.largest : std::min(range_.largest, -range_.lowest);
    for (double& s : scales_) {
        s = static_cast<double>(static_cast<float>(s / reach));
        if (!(s > 0)) s = 1;
    }
    return true;
}

/// Values times their scales, from `from` to `to`, and what became of them.
bool Pack::compare(Rows& from, Rows& to) {
    std::vector<double> values, got, scaled;
    for (int64_t at = 0; at < from.rows(); at += from.step()) {
        const int64_t end = std::min(at + from.step(), from.rows());
        if (!accept(from.read(at, end, values))) return false;
        const auto place = [&](size_t i) { return std::pair(at + static_cast<int64_t>(i) / from.length(), static_cast<int64_t>(i) % from.length()); };
        const auto scale = [&](size_t i) { return scaling_.on() ? scale_at(place(i).first, place(i).second) : 1.0; };
        if (scaling_.on()) {
            scaled.resize(values.size());
            for (size_t i = 0; i < values.size(); ++i) scaled[i] = values[i] / scale(i);
            if (!accept(to.write(at, end, scaled))) return false;
        }
        if (!accept(to.read(at, end, got))) return false;
        for (size_t i = 0; i < values.size(); ++i) {
            const double s = scale(i);
            loss_.add(values[i], got[i] * s, range_.saturates(values[i] / s), place(i).first, place(i).second);
        }
    }
    return true;
}

bool Pack::quantise() {
    Buffer rows, codes;
    if (!scaling_.on()) {
        if (!accept(convert(module_, from_, type_, layout_, to_))) return false;
        if (type_ == from_.type) return true;
        if (!accept(convert(module_, to_, type_, "row", codes))) return false;
    } else {
        codes.type = type_;
        codes.layout = "row";
        codes.extents = from_.extents;
        if (!accept(allocate(module_, codes))) return false;
        if (!codes.scales.empty()) return fail(usage, "--scale: block formats such as " + type_ + " have scales of their own");
    }
    if (codes.scales.empty())
        range_ = range_of(module_, type_);
    else
        range_ = {0, 0, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    // The scales of block formats lie apart, so that their rows have no storage of their own.
    const auto plain = [&](Buffer& of, Buffer& out) { return accept(convert(module_, of, of.scales.empty() ? of.type : "f64", "row", out)); };
    Buffer got;
    if (!plain(from_, rows) || (!codes.scales.empty() && !plain(codes, got))) return false;
    if (!codes.scales.empty()) codes = std::move(got);
    Rows from(module_, rows), to(module_, codes);
    if (scaling_.on() && !find_scales(from)) return false;
    if (!compare(from, to)) return false;
    return !scaling_.on() || accept(convert(module_, codes, type_, layout_, to_));
}

bool Pack::write() {
    std::string error;
    const bool packed = !o_.layout.empty();
    if (!is_safetensors(out_.path) && !has_dtype(type_, to_.extents, false))
        return fail(io, out_.path + ": type " + type_ + " has no .npy type; write .safetensors, or convert it: --type f32");
    auto array = array_of(module_, to_, packed, out_.path);
    if (!accept(array)) return false;
    if (!scaling_.on()) return write_array(out_.path, out_.tensor, array.value(), error) || fail(io, error);
    std::vector<float> scales(scales_.begin(), scales_.end());
    Array values{"f32", {}, false, std::string(reinterpret_cast<const char*>(scales.data()), scales.size() * sizeof(float))};
    if (!scaling_.whole) {
        values.extents.assign(to_.extents.begin(), to_.extents.end() - !to_.extents.empty());
        if (scaling_.group != INT64_MAX) values.extents.push_back(groups_);
    }
    const std::string name = out_.tensor.empty() ? "data" : out_.tensor;
    return write_arrays(out_.path, {{name, array.value()}, {name + ".scale", values}}, error) || fail(io, error);
}

std::string Pack::loss_text() const {
    const auto percent = [&](uint64_t n) { return decimal(100.0 * static_cast<double>(n) / static_cast<double>(loss_.all), 3) + " %"; };
    std::string text = percent(loss_.saturated) + " of " + std::to_string(loss_.all) + " values saturated";
    if (loss_.vanished) text += ", " + percent(loss_.vanished) + " became 0";
    text += ", largest error " + decimal(loss_.largest, 3);
    std::string place;
    int64_t row = loss_.row;
    for (size_t d = to_.extents.size(); d-- > 0;) {
        const bool last = d + 1 == to_.extents.size();
        const int64_t at = last ? loss_.column : row % to_.extents[d];
        if (!last) row /= to_.extents[d];
        place = std::to_string(at) + (place.empty() ? "" : ", ") + place;
    }
    return text + " at [" + place + "]";
}

void Pack::report() {
    const std::string shape = shape_text(to_);
    if (!o_.json) {
        session_.note(type_ + "[" + shape + "] @ " + to_.layout + " -> " + out_.path + (scaling_.on() ? ", scales of f32 beside it" : ""));
        if (loss_.saturated || loss_.vanished || loss_.largest > 0) session_.note(loss_text());
    }
    const double all = static_cast<double>(loss_.all);
    const std::string cure = scaling_.on() ? "; smaller groups lose less, as in --scale group=32" : "; scales bring them into it, as in --scale row";
    if (static_cast<double>(loss_.saturated) > kMuchSaturated * all)
        session_.warn(decimal(100.0 * static_cast<double>(loss_.saturated) / all, 3) + " % of the values lie outside the range of " + type_ + ", " +
                      decimal(range_.lowest, 6) + " to " + decimal(range_.largest, 6) + cure);
    if (loss_.all && static_cast<double>(loss_.vanished) > 0.5 * all)
        session_.warn(decimal(100.0 * static_cast<double>(loss_.vanished) / all, 3) + " % of the values are too small for " + type_ +
                      " and became 0" + cure);
    if (o_.json) {
        nlohmann::json out = {{"schema", 1},
                              {"file", out_.path},
                              {"type", type_},
                              {"extents", to_.extents},
                              {"layout", to_.layout},
                              {"elements", loss_.all},
                              {"saturated", loss_.saturated},
                              {"vanished", loss_.vanished},
                              {"largest_error", loss_.largest},
                              {"scale", o_.scale}};
        std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    }
}

int Pack::operator()() {
    if (read_specs() && load() && quantise() && write()) report();
    return code_;
}

}  // namespace

int pack_file(Session& session) { return Pack(session)(); }

}  // namespace tegula_tool
