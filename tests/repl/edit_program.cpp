// A program that edits texts with tools/edit, for editor.py: it says what it has read, with a client that knows a toy language.
//   edit_program [plain] [bench]       history in $EDIT_HISTORY
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../../tools/edit/editor.h"
#include "../../tools/edit/history.h"
#include "toy_client.h"

int main(int argc, char** argv) {
    tegula_tool::edit::ToyClient client;
    tegula_tool::edit::Options options;
    for (int i = 1; i < argc; ++i) options.plain |= std::strcmp(argv[i], "plain") == 0;
    const char* path = std::getenv("EDIT_HISTORY");
    options.history = path ? path : tegula_tool::edit::default_history();
    tegula_tool::edit::Editor editor(client, options);
    for (int n = 1;; ++n) {
        const auto line = editor.read("tegula[" + std::to_string(n) + "]> ");
        if (const std::string note = editor.take_note(); !note.empty()) std::printf("note: %s\n", note.c_str());
        if (line.kind == tegula_tool::edit::Line::Kind::ended) break;
        if (line.kind == tegula_tool::edit::Line::Kind::interrupted) {
            std::puts("interrupted");
        } else {
            std::string shown;
            for (const char c : line.text) shown += c == '\n' ? std::string("|") : std::string(1, c);
            std::printf("%zu bytes: %s%s", line.text.size(), shown.substr(0, 200).c_str(), line.text == "open" ? "" : "\n");
        }
        std::fflush(stdout);
    }
    std::puts("bye");
}
