// Pictures as JSON (picture.h).
#include "jit/picture/picture.h"

#include "jit/picture/builders.h"
#include "lang/json_writer.h"
#include "lang/plain_text.h"

namespace tegula::picture {

std::string short_text(double v) {
    const double size = v < 0 ? -v : v;
    return size >= 1000 && size < 1e7 ? decimal_text(v, 0, std::chars_format::fixed) : decimal_text(v, 4);
}

std::string Picture::json() const {
    JsonWriter w;
    w.object([&](JsonWriter& top) {
        top("schema", 1), top("kind", kind), top("title", title), top("facts", facts), top("figures", figures), top("notes", notes);
    });
    return w.take() + "\n";
}

}  // namespace tegula::picture
