// What all forms of a picture share: reading the model, cutting a ruler into rows, axes of numbers.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tegula_tool::viz {

using Json = nlohmann::ordered_json;

enum Tone : int { kPlain = 0, kGap = 9, kBad = 10, kGood = 11, kTones = 12 };

/// A member that may be missing.
std::string text_of(const Json& object, const char* name);
int tone_of(const Json& object);  ///< its member `tone`, in range
/// Characters, as far as UTF-8 has one per code point.
size_t length(std::string_view text);
std::string padded(std::string_view text, size_t width, bool right = false);
bool is_number(std::string_view text);  ///< a quantity, whose column is aligned at the right

/// A field of a ruler as it stands in one row of it.
struct Piece {
    int64_t begin = 0, size = 0;  ///< bits of the row
    std::string text;
    int tone = kPlain;
    bool continues = false, goes_on = false;  ///< the field began in the row before, ends in a later one
    bool whole() const { return !continues && !goes_on; }
};
struct RulerRow {
    int64_t byte = 0;  ///< that it begins with
    int64_t bits = 0;
    std::vector<Piece> pieces;  ///< bits that no field has are pieces of the tone kGap without text
};
/// Rows of `per_row` bits.
std::vector<RulerRow> cut_ruler(const Json& figure, int64_t per_row);
/// The largest of 64, 32, 16 and 8 bits a row in which `room` characters are enough for the text of every field; 8 where none is.
int64_t bits_per_row(const Json& figure, int64_t room);

/// From a value to a place from 0 to 1.
struct Scale {
    double begin = 0, end = 1;
    bool logarithmic = false;
    explicit Scale(const Json& axis);
    double place(double v) const;
    std::vector<double> ticks() const;
};
std::string short_number(double v);  ///< at most four digits

/// The listing of what nvdisasm prints with lines of the CUDA text, `places` being those of its lines.
Json machine_code(const std::string& text, const Json& places);

std::string paint_text(const Json& model, int width, bool colour);
std::string paint_svg(const Json& model);
std::string paint_html(const Json& model);
std::string paint_source(const Json& model);  ///< HTML of a picture of listings: panes side by side
/// `<`, `&` and quotes as references.
std::string escaped(std::string_view text);
/// The colours of tones and of ink, light and dark, as rules of CSS.
std::string theme();

}  // namespace tegula_tool::viz
