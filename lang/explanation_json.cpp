// Explanations as JSON (explanation.h): an object with the members of each struct by name; a fact has its kind and place besides.
#include "lang/explanation.h"
#include "lang/json_writer.h"

namespace tegula {

namespace {

struct NoteMembers {
    const explain::Note& note;
    void fields(JsonWriter& w) const {
        std::visit(
            [&](const auto& fact) {
                w("kind", fact.kind);
                w("span", note.span);
                fact.fields(w);
            },
            note.fact);
    }
};

}  // namespace

std::string Explanation::json(const SourceMap& sources) const {
    std::vector<NoteMembers> members;
    for (const explain::Note& n : notes) members.push_back({n});
    JsonWriter w(&sources);
    w.object(
        [&](JsonWriter& top) { top("schema", 1), top("kernel", kernel), top("machine", machine), top("generics", generics), top("notes", members); });
    return w.take() + "\n";
}

}  // namespace tegula
