// Where the next statement goes (builder.h).
#include "lang/kernel/builder.h"

#include <utility>

#include "lang/check.h"

namespace tegula::kernel {

namespace {

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// Only letters, digits and underscores pass.
std::string identifier(std::string_view text) {
    std::string out;
    for (char c : text) out += is_plain(c) ? c : '_';
    return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "_" + out : out;
}

/// A file name inside quotes of a #line directive: no quote, backslash or control character passes.
std::string file_text(std::string_view name) {
    std::string out;
    for (char c : name.substr(0, 200)) out += is_plain(c) || c == '.' || c == '/' || c == '-' ? c : '_';
    return out;
}

}  // namespace

/// What has to stand in front of the next statement.
void Builder::flush() {
    if (hook_ && !in_hook_) {
        in_hook_ = true;
        hook_();
        in_hook_ = false;
    }
    if (!mark_.empty()) open_.back().body->push_back({Mark{std::exchange(mark_, {})}});
}

Statement& Builder::add(Statement statement) {
    const Ex condition = std::exchange(condition_, {});  // not of what is to stand in front
    flush();
    Body& body = *open_.back().body;
    if (condition) {
        If under{condition};
        under.brief = true;
        under.yes.push_back(std::move(statement));
        statement = {std::move(under)};
    }
    body.push_back(std::move(statement));
    return body.back();
}

void Builder::line(std::string text) { add({Text{std::move(text)}}); }

void Builder::close() {
    TEGULA_CHECK(open_.size() > 1 && !condition_, "nothing is open");
    flush();
    open_.pop_back();
}

void Builder::otherwise() {
    TEGULA_CHECK(open_.size() > 1 && !condition_, "nothing is open");
    flush();
    Statement& owner = *open_.back().owner;
    open_.pop_back();
    If& choice = std::get<If>(owner.is);
    TEGULA_CHECK(!choice.has_else, "an `if` has one else");
    choice.has_else = true;
    enter(owner, choice.no);
}

std::string Builder::fresh(std::string_view stem) {
    const std::string base = identifier(stem.substr(0, 40));
    std::string out;
    do out = base + (base.back() >= '0' && base.back() <= '9' ? "_" : "") + std::to_string(counter_++);
    while (!taken_.insert(out).second);
    return out;
}

void Builder::mark(const SourceMap* sources, Span span) {
    if (!sources || !span.valid()) return;
    const uint32_t at = sources->line_col(span.file, span.begin).line;
    if (at == line_ && span.file == file_) return;
    line_ = at;
    file_ = span.file;
    mark_ = "#line " + std::to_string(at) + " \"" + file_text(sources->name(span.file)) + "\"";
}

Ex Builder::constant(std::string_view stem, Ex value) {
    const std::string name = fresh(stem);
    let(c_type(value.type()), name, value);
    return pool_.name(value.type(), name, value->facts);
}

void Builder::add_let(Let let) {
    TEGULA_CHECK(!condition_, "a variable under a condition would end with it");
    add({std::move(let)});
}

void Builder::let(const std::string& type, std::string name, Ex value, bool maybe_unused) {
    add_let({(maybe_unused ? "[[maybe_unused]] const " : "const ") + type, std::move(name), value, true});
}

void Builder::let_pointer(const std::string& to, std::string name, Ex value) {
    add_let({to + "* const", std::move(name), value, true});
}

void Builder::var(std::string type, std::string name, Ex value) { add_let({std::move(type), std::move(name), value}); }

void Builder::declare(std::string type, std::string name, int64_t size, std::string initial, bool uniform) {
    TEGULA_CHECK(!condition_, "a variable under a condition would end with it");
    add({Declare{std::move(type), std::move(name), size, std::move(initial), uniform}});
}

void Builder::assign(Assign assign) { add({assign}); }

void Builder::call(KernelOp op, std::vector<Ex> operands) {
    const Row& called = row(op);
    TEGULA_CHECK(called.operands.takes(operands.size()), std::string(called.name) + ": another number of operands");
    if (!called.section.empty()) kernel_.sections.emplace(called.section);
    add({Call{&called, std::move(operands)}});
}

void Builder::break_if(Ex condition) { add({Break{condition}}); }

void Builder::leave() { add({Return{}}); }

void Builder::when(Ex condition) {
    TEGULA_CHECK(!condition_, "one condition a statement");
    if (!condition.is_true()) condition_ = condition;
}

void Builder::open_for(For loop) {
    TEGULA_CHECK(!condition_, "a block under a condition");
    Statement& s = add({std::move(loop)});
    enter(s, std::get<For>(s.is).body);
}

Ex Builder::open_count(const std::string& name, int64_t count, int unroll) {
    const Ex counter = pool_.name(Type::i32, name);  // the test is not to fold
    open_for({"int", name, pool_.number(0), lt(counter, count), {increment(counter)}, unroll});
    return pool_.counter(name, count);
}

void Builder::open_if(Ex condition, std::string ring, int beyond) {
    TEGULA_CHECK(!condition_, "a block under a condition");
    If choice{condition};
    choice.ring = std::move(ring);
    choice.beyond = beyond;
    Statement& s = add({std::move(choice)});
    enter(s, std::get<If>(s.is).yes);
}

void Builder::open_block() {
    Statement& s = add({Block{}});
    enter(s, std::get<Block>(s.is).body);
}

void Builder::open_role(Roles::Part role) {
    TEGULA_CHECK(!condition_, "a block under a condition");
    Statement& s = add({Roles{{std::move(role)}}});
    enter(s, std::get<Roles>(s.is).parts.back().body);
}

void Builder::next_role(Roles::Part role) {
    TEGULA_CHECK(open_.size() > 1 && std::holds_alternative<Roles>(open_.back().owner->is), "no role is open");
    flush();
    Statement& owner = *open_.back().owner;
    open_.pop_back();
    Roles& roles = std::get<Roles>(owner.is);
    roles.parts.push_back(std::move(role));
    enter(owner, roles.parts.back().body);
}

Body Builder::copy_since(size_t position) const {
    const Body& body = *open_.back().body;
    return Body(body.begin() + static_cast<std::ptrdiff_t>(position), body.end());
}

void Builder::append(const Body& copy) {
    Body& body = *open_.back().body;
    body.insert(body.end(), copy.begin(), copy.end());
}

}  // namespace tegula::kernel
