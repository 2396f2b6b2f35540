// The commands of the console, which begin with `:`. One table: what it has not is neither understood, completed, shown by `:help` nor in the manual.
#pragma once
#include <span>

#include "core.h"
#include "tools/options.h"

namespace tegula_tool::repl {

/// What a command is given, for completion and for knowing where a text goes on in a further line.
enum class Operands : uint8_t { none, expression, kernel, picture, item, file, folder, words, text };

struct Command {
    std::string_view name, operands;
    Operands takes;
    std::string_view words;  ///< what completion offers besides, between spaces
    std::string_view help;
    int (*run)(Core& core, const std::string& operands);  ///< null: of the console that reads the text (front.h)
    bool changes;                                         ///< the session or its settings: repeated where a session is made anew
};

std::span<const Command> commands();
/// Names and helps of all, for the manual.
std::vector<std::pair<std::string, std::string>> command_rows();
/// Does the text begin as commands do?
bool is_command(std::string_view text);
/// Its first word without the colon.
std::string_view command_word(std::string_view text);
/// What stands behind the command's name, where that is a text of the language; else empty.
std::string_view command_operand(std::string_view text);
/// The command that a word names or begins, the first of the table; null: `problem` says why not.
const Command* find_command(std::string_view word, std::string& problem);
int run_command(Core& core, const std::string& text);
/// Null: the session knows what may stand there.
Json complete_command(Core& core, const std::string& text, size_t at);

// The commands, by what they are about.
int show_type(Core&, const std::string&);
int show_value(Core&, const std::string&);
int show_bits(Core&, const std::string&);
int show_layout(Core&, const std::string&);
int show_differences(Core&, const std::string&);
int import_array(Core&, const std::string&);
int show_ir(Core&, const std::string&);
int show_cuda(Core&, const std::string&);
int show_ptx(Core&, const std::string&);
int show_sass_of(Core&, const std::string&);
int show_llvm(Core&, const std::string&);
int show_asm(Core&, const std::string&);
int show_resources(Core&, const std::string&);
int draw(Core&, const std::string&);
int explain(Core&, const std::string&);
int measure(Core&, const std::string&);
int run_benches(Core&, const std::string&);
int run_tests(Core&, const std::string&);
int show_variables(Core&, const std::string&);
int show_items(Core&, const std::string&);
/// The type of what the verb `inspect` has found; of an item its name with what it takes.
std::string signature_of(const Json& found);
int show_documentation(Core&, const std::string&);
int show_history(Core&, const std::string&);
int show_error(Core&, const std::string&);
int show_doctor(Core&, const std::string&);
int show_cache(Core&, const std::string&);
int show_help(Core&, const std::string&);
int undo(Core&, const std::string&);
int reset(Core&, const std::string&);
int load_file(Core&, const std::string&);
int reload_files(Core&, const std::string&);
int watch_file(Core&, const std::string&);
int save_file(Core&, const std::string&);
int change_folder(Core&, const std::string&);
int set_machine(Core&, const std::string&);
int set_model(Core&, const std::string&);
int set_checked(Core&, const std::string&);
int set_setting(Core&, const std::string&);

// What several of them need.
std::string trimmed(std::string_view text);
std::vector<std::string> words_in(std::string_view text);

}  // namespace tegula_tool::repl
