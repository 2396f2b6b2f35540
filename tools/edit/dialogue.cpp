// See dialogue.h.
#include "dialogue.h"

#include <algorithm>
#include <utility>

#include "clusters.h"

namespace tegula_tool::edit {

namespace {

constexpr size_t kIndent = 4;
constexpr size_t kMostColoured = 256u << 10;  ///< bytes; more is no text that a person looks at

std::string_view without_end(std::string_view text) { return text.substr(0, text.find_last_not_of(" \t\n") + 1); }

/// The two last lines are blank.
bool ends_in_blank_lines(std::string_view text) {
    const std::string_view rest = text.substr(without_end(text).size());
    return std::ranges::count(rest, '\n') >= 2;
}

}  // namespace

template <auto function>
Action Dialogue::edit() {
    (buffer_.*function)();
    return Action::none;
}

template <Action action>
Action Dialogue::ask() {
    return action;
}

const Dialogue::Binding Dialogue::kBindings[] = {
    {'a', false, &Dialogue::edit<&Buffer::home>},
    {'b', false, &Dialogue::edit<&Buffer::left>},
    {'c', false, &Dialogue::interrupt},
    {'d', false, &Dialogue::end_of_input},
    {'e', false, &Dialogue::edit<&Buffer::end>},
    {'f', false, &Dialogue::edit<&Buffer::right>},
    {'k', false, &Dialogue::edit<&Buffer::kill_to_end>},
    {'l', false, &Dialogue::ask<Action::clear>},
    {'n', false, &Dialogue::down},
    {'p', false, &Dialogue::up},
    {'r', false, &Dialogue::start_search},
    {'s', false, &Dialogue::start_search},
    {'t', false, &Dialogue::edit<&Buffer::transpose>},
    {'u', false, &Dialogue::edit<&Buffer::kill_to_begin>},
    {'w', false, &Dialogue::edit<&Buffer::kill_blank_word_left>},
    {'x', false, &Dialogue::prefix_x},
    {'y', false, &Dialogue::edit<&Buffer::yank>},
    {'z', false, &Dialogue::ask<Action::suspend>},
    {'_', false, &Dialogue::edit<&Buffer::undo>},
    {'/', false, &Dialogue::edit<&Buffer::undo>},
    {'b', true, &Dialogue::edit<&Buffer::word_left>},
    {'d', true, &Dialogue::edit<&Buffer::kill_word_right>},
    {'f', true, &Dialogue::edit<&Buffer::word_right>},
    {'y', true, &Dialogue::edit<&Buffer::yank_other>},
};

void Dialogue::begin(std::string prompt) {
    prompt_ = std::move(prompt);
    buffer_.reset(further_.empty() ? std::string() : further_.back());
    if (!further_.empty()) further_.pop_back();
    listing_.reset();
    search_.reset();
    tab_ = after_x_ = walks_ = false;
}

Action Dialogue::press(const Press& press) {
    message_.clear();
    if (search_ && search_press(press)) return Action::none;
    if (listing_ && list_press(press)) return Action::none;
    listing_.reset();
    const bool after_tab = std::exchange(tab_, false), after_x = std::exchange(after_x_, false);
    if (press.key == Key::tab && !press.shift) {
        tab_ = after_tab;
        return tab();
    }
    if (after_x && press.key == Key::text) {
        if (press.ctrl && press.text == "e") return Action::external;
        if (press.ctrl && press.text == "u") buffer_.undo();
        return Action::none;
    }
    return press.key == Key::text ? character(press) : named(press);
}

Action Dialogue::character(const Press& press) {
    if (press.ctrl || press.alt) {
        for (const Binding& b : kBindings)
            if (press.text.size() == 1 && b.letter == press.text[0] && b.alt == press.alt && press.ctrl != b.alt) return (this->*b.command)();
        if (press.alt && !press.ctrl && press.text == "<") buffer_.move_to(0);
        if (press.alt && !press.ctrl && press.text == ">") buffer_.move_to(text().size());
        return Action::none;
    }
    const bool closes = press.text == "}" || press.text == ")" || press.text == "]";
    closes ? insert_closer(press.text[0]) : buffer_.insert(press.text);
    return Action::none;
}

Action Dialogue::named(const Press& press) {
    constexpr int kPage = 10;
    const bool word = press.ctrl || press.alt;
    switch (press.key) {
        case Key::paste:
            paste(press.text);
            break;
        case Key::enter:
            return press.alt || press.shift || press.ctrl ? newline() : enter();
        case Key::backspace:
            return word ? edit<&Buffer::kill_word_left>() : backspace();
        case Key::erase:
            word ? buffer_.kill_word_right() : buffer_.erase_right();
            break;
        case Key::left:
            word ? buffer_.word_left() : (void)buffer_.left();
            break;
        case Key::right:
            word ? buffer_.word_right() : (void)buffer_.right();
            break;
        case Key::up:
            return up();
        case Key::down:
            return down();
        case Key::home:
            word ? buffer_.move_to(0) : buffer_.home();
            break;
        case Key::end:
            word ? buffer_.move_to(text().size()) : buffer_.end();
            break;
        case Key::page_up:
            for (int i = 0; i < kPage; ++i) buffer_.up();
            break;
        case Key::page_down:
            for (int i = 0; i < kPage; ++i) buffer_.down();
            break;
        case Key::text:
        case Key::tab:
        case Key::escape:
            break;
    }
    return Action::none;
}

Action Dialogue::enter() {
    // The cursor in an input from the history marks where the search goes on: nobody has put it there to break the line.
    if (walks_ && text() == recalled_ && buffer_.cursor() == recalled_cursor_) buffer_.move_to(text().size());
    if (!is_blank(std::string_view(text()).substr(buffer_.cursor()))) return newline();
    if (is_blank(text()) || ends_in_blank_lines(text()) || client_.is_complete(text()).complete) return Action::submit;
    return newline();
}

Action Dialogue::newline() {
    const std::string_view all = text();
    size_t begin = buffer_.cursor(), end = begin;
    if (buffer_.only_blanks_before() && begin > 0) begin = line_begin(all, begin);  // blank lines hold no blanks
    while (end < all.size() && (all[end] == ' ' || all[end] == '\t')) ++end;
    size_t indent = client_.is_complete(all.substr(0, begin)).indent;
    if (end < all.size() && (all[end] == '}' || all[end] == ')' || all[end] == ']')) indent -= std::min(indent, kIndent);
    buffer_.replace(begin, end, "\n" + std::string(indent, ' '));
    return Action::none;
}

/// A bracket that closes stands under the line that opened it.
void Dialogue::insert_closer(char closer) {
    const size_t begin = line_begin(text(), buffer_.cursor());
    if (begin > 0 && buffer_.only_blanks_before()) {
        const size_t indent = client_.is_complete(std::string_view(text()).substr(0, begin)).indent;
        buffer_.replace(begin, buffer_.cursor(), std::string(indent - std::min(indent, kIndent), ' ') + closer);
    } else {
        buffer_.insert(std::string_view(&closer, 1));
    }
}

Action Dialogue::backspace() {
    const size_t begin = line_begin(text(), buffer_.cursor()), columns = buffer_.cursor() - begin;
    if (begin == 0 || columns == 0 || !buffer_.only_blanks_before() || text()[buffer_.cursor() - 1] != ' ') return edit<&Buffer::erase_left>();
    const size_t spaces = (columns - 1) % kIndent + 1, at = text().find_last_not_of(' ', buffer_.cursor() - 1) + 1;
    buffer_.replace(std::max(buffer_.cursor() - spaces, at), buffer_.cursor(), {});
    return Action::none;
}

Action Dialogue::interrupt() {
    buffer_.kill_all();
    further_.clear();
    walks_ = false;
    return Action::interrupt;
}

Action Dialogue::end_of_input() { return text().empty() ? Action::end : edit<&Buffer::erase_right>(); }
Action Dialogue::prefix_x() { return after_x_ = true, Action::none; }

// ---- history ----

/// An entry that was found by its beginning is passed over as a whole; within others the cursor goes from line to line.
Action Dialogue::up() {
    if ((walks_ && text() == recalled_ && !prefix_.empty()) || !buffer_.up()) walk(true);
    return Action::none;
}

Action Dialogue::down() {
    if ((walks_ && text() == recalled_ && !prefix_.empty()) || !buffer_.down()) walk(false);
    return Action::none;
}

void Dialogue::walk(bool older) {
    const auto& entries = history_.entries();
    const bool begins = !walks_ || text() != recalled_;
    if (begins && !older) return;
    const std::string prefix = begins ? text().substr(0, buffer_.cursor()) : prefix_;
    for (size_t i = begins ? entries.size() : entry_; older ? i > 0 : i < entries.size();) {
        i += older ? size_t(-1) : 1;
        const bool back = i == entries.size();
        const std::string candidate = back ? draft_ : entries[i];
        if (!candidate.starts_with(prefix) || (candidate == text() && !back)) continue;
        if (begins) draft_ = text();
        walks_ = !back;
        prefix_ = prefix;
        entry_ = i;
        // Where the next key of this direction goes on from.
        const size_t edge = older ? line_end(candidate, 0) : candidate.size();
        buffer_.set(candidate, prefix.empty() ? edge : prefix.size());
        recalled_ = candidate;
        recalled_cursor_ = buffer_.cursor();
        return;
    }
}

Action Dialogue::start_search() {
    search_ = Search{{}, text(), buffer_.cursor(), history_.entries().size(), 0, true, true};
    return Action::none;
}

/// The next entry that holds the query; capitals matter when it has any.
void Dialogue::seek(size_t from, bool older) {
    const auto lower = [](std::string text) {
        for (char& c : text)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 0x20);
        return text;
    };
    const bool exact = lower(search_->query) != search_->query;
    const auto& entries = history_.entries();
    for (size_t i = from; i < entries.size(); i += older ? size_t(-1) : 1) {
        const size_t at = (exact ? entries[i] : lower(entries[i])).rfind(search_->query);
        if (at == std::string::npos || (search_->entry < entries.size() && i != search_->entry && entries[i] == text())) continue;
        search_->entry = i;
        search_->at = at;
        search_->found = true;
        buffer_.set(entries[i], at);
        return;
    }
    search_->found = false;
}

bool Dialogue::search_press(const Press& press) {
    Search& search = *search_;
    const bool plain = press.key == Key::text && !press.ctrl && !press.alt;
    if (plain || press.key == Key::paste) {
        search.query += press.text.substr(0, press.text.find('\n'));
        seek(std::min(search.entry, history_.entries().size() - 1), true);
        return true;
    }
    if (press.key == Key::backspace && !press.alt && !press.ctrl) {
        search.query.resize(before(search.query, search.query.size()));
        search.entry = history_.entries().size();
        if (search.query.empty()) {
            buffer_.set(search.text, search.cursor);
            search.found = true;
        } else {
            seek(history_.entries().size() - 1, true);
        }
        return true;
    }
    if (press.key == Key::text && press.ctrl && (press.text == "r" || press.text == "s")) {
        const bool older = press.text == "r";
        if (!search.query.empty()) seek(search.entry + (older ? size_t(-1) : 1), older);
        return true;
    }
    if (press.key == Key::escape || (press.key == Key::text && press.ctrl && (press.text == "g" || press.text == "c"))) {
        buffer_.set(search.text, search.cursor);
        search_.reset();
        return true;
    }
    search_.reset();
    if (press.key != Key::enter) return false;
    buffer_.move_to(text().size());  // to be looked at; another Enter runs it
    return true;
}

// ---- completion ----

Action Dialogue::tab() {
    if (const size_t begin = line_begin(text(), buffer_.cursor()); begin > 0 && buffer_.only_blanks_before()) {
        buffer_.insert(std::string(kIndent - (buffer_.cursor() - begin) % kIndent, ' '));
        return Action::none;
    }
    const bool again = std::exchange(tab_, true);
    Completion completion = client_.complete(text(), buffer_.cursor());
    completion.end = std::clamp(completion.end, buffer_.cursor(), text().size());
    completion.begin = std::min(completion.begin, buffer_.cursor());
    if (completion.candidates.empty()) {
        message_ = "nothing completes this";
        return Action::none;
    }
    std::string_view common = completion.candidates[0].text;
    for (const Candidate& c : completion.candidates)
        common = common.substr(0, static_cast<size_t>(std::ranges::mismatch(common, c.text).in1 - common.begin()));
    while (!common.empty() && common.size() < completion.candidates[0].text.size() &&
           (static_cast<uint8_t>(completion.candidates[0].text[common.size()]) & 0xc0) == 0x80)
        common.remove_suffix(1);
    std::string typed = text().substr(completion.begin, completion.end - completion.begin);
    if (common.size() > typed.size() || (completion.candidates.size() == 1 && common != typed)) {
        buffer_.replace(completion.begin, completion.end, std::string(common));
        tab_ = completion.candidates.size() > 1;
    } else if (again || completion.candidates.size() == 1) {
        const size_t length = typed.size();
        listing_ = Listing{std::move(completion), {}, std::move(typed), length};
    }
    return Action::none;
}

void Dialogue::choose(size_t candidate) {
    Listing& list = *listing_;
    const std::string& chosen = candidate < list.completion.candidates.size() ? list.completion.candidates[candidate].text : list.typed;
    buffer_.replace(list.completion.begin, list.completion.begin + list.length, chosen);
    list.length = chosen.size();
    list.chosen = candidate;
}

bool Dialogue::list_press(const Press& press) {
    const size_t count = listing_->completion.candidates.size();
    if (press.key == Key::tab) {
        choose(press.shift ? (listing_->chosen.value_or(0) + count - 1) % count : listing_->chosen ? (*listing_->chosen + 1) % count : 0);
        return true;
    }
    const bool gives_up = press.key == Key::escape || (press.key == Key::text && press.ctrl && press.text == "g");
    const bool takes = press.key == Key::enter && listing_->chosen;
    if (gives_up && listing_->chosen) choose(count);
    if (gives_up || takes) listing_.reset(), tab_ = false;
    return gives_up || takes;
}

std::vector<Row> Dialogue::list_rows(size_t width, size_t height) const {
    const auto& candidates = listing_->completion.candidates;
    size_t longest = 1;
    for (const Candidate& c : candidates) longest = std::max(longest, columns_of(c.text));
    const size_t column = std::min(longest + 2, width), across = std::max<size_t>((width + 2) / column, 1);
    const size_t lines = (candidates.size() + across - 1) / across, most = std::max<size_t>(height / 2, 2), shown = std::min(lines, most);
    const size_t chosen_line = listing_->chosen.value_or(0) % lines, first = chosen_line < shown ? 0 : chosen_line - shown + 1;
    std::vector<Row> rows;
    for (size_t line = first; line < first + shown; ++line) {
        Row row;
        for (size_t k = 0; k < across; ++k) {
            const size_t index = k * lines + line;  // down the columns
            if (index >= candidates.size()) break;
            if (k > 0) row.add(std::string(k * column - row.columns, ' '), Style::plain, width);
            row.add(candidates[index].text, listing_->chosen == index ? Style::chosen : Style::plain, std::min((k + 1) * column, width));
        }
        rows.push_back(std::move(row));
    }
    Row about;
    const Candidate& told = candidates[listing_->chosen.value_or(0)];
    if (shown < lines) about.add(std::to_string(candidates.size()) + " in " + std::to_string(lines) + " lines  ", Style::faint, width);
    const std::string_view doc = std::string_view(told.doc).substr(0, told.doc.find('\n'));
    const std::string_view note = std::string_view(told.note).substr(0, told.note.find('\n'));
    about.add(told.text + (note.empty() ? "" : ": "), Style::faint, width);
    about.add(note, Style::faint, width);
    if (!doc.empty()) about.add("  " + std::string(doc), Style::faint, width);
    rows.push_back(std::move(about));
    return rows;
}

// ---- pasting ----

void Dialogue::paste(std::string text) {
    for (size_t at = 0; (at = text.find('\r', at)) != std::string::npos;) {
        if (text.compare(at, 2, "\r\n") == 0)
            text.erase(at, 1);
        else
            text[at] = '\n';
    }
    std::vector<std::string> inputs = transcript_inputs(text, prompt_);
    if (inputs.empty()) {
        while (text.ends_with('\n')) text.pop_back();
        inputs.push_back(std::move(text));
    }
    buffer_.separate();
    buffer_.replace(buffer_.cursor(), buffer_.cursor(), inputs[0]);
    further_.insert(further_.end(), inputs.rbegin(), inputs.rend() - 1);
}

std::vector<std::string> transcript_inputs(std::string_view text, std::string_view prompt) {
    const std::string_view name = prompt.substr(0, prompt.find('['));
    std::vector<std::string> inputs;
    if (name.size() == prompt.size()) return inputs;
    /// What stands behind a prompt; nothing: there is none.
    const auto behind_prompt = [&](std::string_view line) -> std::optional<std::string_view> {
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        if (!line.starts_with(name) || !line.substr(name.size()).starts_with('[')) return std::nullopt;
        const size_t digits = name.size() + 1, end = line.find_first_not_of("0123456789", digits);
        if (end == digits || end == line.npos || !line.substr(end).starts_with("]>")) return std::nullopt;
        return line.substr(end + (line.substr(end + 2).starts_with(' ') ? 3 : 2));
    };
    const auto behind_dots = [](std::string_view line) -> std::optional<std::string_view> {
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        if (!line.starts_with("...>")) return std::nullopt;
        return line.substr(line.substr(4).starts_with(' ') ? 5 : 4);
    };
    bool input = false;  // the line before belongs to one
    while (!text.empty()) {
        const size_t end = line_end(text, 0);
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (const auto first = behind_prompt(line)) {
            inputs.emplace_back(*first);
            input = true;
        } else if (const auto more = input ? behind_dots(line) : std::nullopt) {
            (inputs.back() += '\n') += *more;
        } else {
            input = false;
        }
    }
    const bool any = !inputs.empty();
    for (std::string& i : inputs) i.resize(without_end(i).size());
    std::erase_if(inputs, [](const std::string& i) { return i.empty(); });
    if (any && inputs.empty()) inputs.emplace_back();
    return inputs;
}

// ---- what is seen ----

View Dialogue::plain_view() {
    View view;
    view.text = text();
    view.cursor = buffer_.cursor();
    view.prompt = prompt_;
    if (coloured_ != text()) {
        colours_ = colour_ && text().size() <= kMostColoured ? client_.colours(text()) : std::vector<Span>();
        coloured_ = text();
    }
    view.colours = colours_;
    return view;
}

View Dialogue::submitted() {
    buffer_.set(without_end(text()), text().size());
    return plain_view();
}

View Dialogue::view(size_t width, size_t height) {
    View view = plain_view();
    const auto line = [&](const std::string& text) {
        Row row;
        row.add(text, Style::faint, width);
        view.below.push_back(std::move(row));
    };
    if (search_) {
        line((search_->found ? "search: " : "nothing holds: ") + search_->query);
        if (search_->found && !search_->query.empty()) view.marks.push_back({search_->at, search_->at + search_->query.size(), Style::match});
        return view;
    }
    mark_bracket(view);
    if (listing_)
        view.below = list_rows(width, height);
    else if (!message_.empty())
        line(message_);
    else if (!further_.empty())
        line(std::to_string(further_.size()) + " more of the pasted inputs follow; Ctrl-C drops them");
    if (listing_ || !colour_ || view.cursor != view.text.size() || view.text.empty() || view.text.size() > kMostColoured) return view;
    if (hinted_ != text()) {
        hint_ = client_.hint(text(), buffer_.cursor());
        hinted_ = text();
    }
    view.hint = hint_.empty() ? "" : "  " + hint_.substr(0, hint_.find('\n'));
    return view;
}

/// The partner of the bracket at the cursor or before it; a closing one without a partner is wrong.
void Dialogue::mark_bracket(View& view) const {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    constexpr size_t kFarthest = 64u << 10;
    const std::string_view text = view.text;
    const auto is_code = [&](size_t at) {
        const auto span = std::ranges::upper_bound(view.colours, at, {}, &Span::end);
        return span == view.colours.end() || span->begin > at || (span->colour != Colour::string && span->colour != Colour::comment);
    };
    const auto is_bracket = [&](size_t at) {
        return at < text.size() && (kOpen.find(text[at]) != kOpen.npos || kClose.find(text[at]) != kClose.npos) && is_code(at);
    };
    size_t at = view.cursor;
    if (at > 0 && is_bracket(at - 1) && (kClose.find(text[at - 1]) != kClose.npos || !is_bracket(at))) --at;
    if (!is_bracket(at)) return;
    const bool forward = kOpen.find(text[at]) != kOpen.npos;
    std::string open;
    for (size_t i = at; i < text.size() && (forward ? i - at : at - i) < kFarthest; i += forward ? 1 : size_t(-1)) {
        if (!is_bracket(i)) continue;
        const size_t opens = kOpen.find(text[i]), closes = kClose.find(text[i]);
        if (forward ? opens != kOpen.npos : closes != kClose.npos) {
            open += forward ? kClose[opens] : kOpen[closes];
        } else {
            if (open.back() != text[i]) break;
            open.pop_back();
            if (open.empty()) return view.marks.push_back({i, i + 1, Style::match});
        }
    }
    if (!forward && at < kFarthest) view.marks.push_back({at, at + 1, Style::error});
}

}  // namespace tegula_tool::edit
