// Operations that one asm statement is printed for (products.h).
#include "jit/cuda/products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "lang/check.h"

namespace tegula::cuda {

namespace {

using kernel::Body;
using kernel::Call;
using kernel::Ex;
using kernel::KernelOp;
using kernel::Statement;

std::string number(int64_t n) { return std::to_string(n); }

/// NAME + OFFSET: registers of an array, or a descriptor.
struct Place {
    Ex name;
    int64_t offset = 0;
};

Place place(Ex e) {
    if (e->op == kernel::Op::add)
        if (const auto offset = Ex(e->operands[1]).constant()) return {Ex(e->operands[0]), *offset};
    return {e, 0};
}

std::string plus(const Place& p) { return p.offset ? p.name.text() + " + " + number(p.offset) : p.name.text(); }

bool is_float(Ex array) { return array.type() == kernel::Type::other; }
std::string c_type(Ex array) { return is_float(array) ? "float" : kernel::c_type(array.type()); }
const char* constraint(Ex array) { return is_float(array) ? "f" : "r"; }

/// One asm statement of products that add to the same sum.
class Products {
public:
    Products(std::span<const Call* const> rows, const kernel::Kernel& kernel) : kernel_(kernel) {
        for (const Call* row : rows) {
            if (row->row->has(kernel::ISSUES)) issues_.push_back(row);
            if (row->row->op == KernelOp::wgmma_wait) wait_ = row->operands[0].text();
            fence_ |= row->row->op == KernelOp::wgmma_fence;
            commit_ |= row->row->op == KernelOp::wgmma_commit;
        }
        const auto& first = issues_.front()->operands;
        sum_ = place(first[2]).name;
        a_ = place(first[first.size() - 2]);
        b_ = place(first.back());
        named_sum_ = is_named(sum_);
        named_a_ = is_named(a_.name);
        descriptor_ = a_.name.type() == kernel::Type::u64;
        find_registers();
    }

    /// Its parameters and body; `shape` is that of the first instruction.
    std::string text() const {
        std::string out =
            "    asm volatile(\n        \"{\\n.reg .pred no, yes;\\n.reg .b64 a, b;\\nsetp.ne.b32 no, 0, "
            "0;\\nsetp.ne.b32 yes, 1, 0;\\n\"\n";
        if (fence_) out += "        \"wgmma.fence.sync.aligned;\\n\"\n";
        for (const Call* issue : issues_) add(out, *issue);
        out += "        \"" + std::string(commit_ ? "wgmma.commit_group.sync.aligned;\\n" : "") +
               (wait_.empty() ? "" : "wgmma.wait_group.sync.aligned " + wait_ + ";\\n") + "}\"\n        : ";
        const char* between = "";
        for (const auto& [r, made] : registers_) {
            out += between + ("\"" + std::string(made ? "=" : "+")) + constraint(sum_) + "\"(d[" + number(r) + "])";
            between = ", ";
        }
        out += "\n        : ";
        if (descriptor_) out += "\"l\"(a), ";
        for (const int64_t r : factors_) out += "\"r\"(a[" + number(r) + "]), ";
        out += "\"l\"(b)\n        : \"memory\");\n";
        return "(" + (named_sum_ ? "" : c_type(sum_) + "* d, ") +
               (named_a_      ? ""
                : descriptor_ ? "unsigned long long a, "
                              : "const unsigned* a, ") +
               "unsigned long long b) {\n" + out + "}\n";
    }
    std::string arguments() const {
        return "(" + (named_sum_ ? "" : sum_.text() + ", ") + (named_a_ ? "" : plus(a_) + ", ") + plus(b_) + ")";
    }
    /// "m64n256k16"
    std::string shape() const {
        const std::string_view form = issues_.front()->operands[0]->text;
        return std::string(form.substr(0, form.find('.')));
    }
    std::string doc() const {
        return std::string(issues_.front()->operands[0]->text) + ", " + number(static_cast<int64_t>(issues_.size())) +
               " instructions";
    }

private:
    bool is_named(Ex e) const {
        return std::any_of(kernel_.named.begin(), kernel_.named.end(),
                           [&](const auto& n) { return e->op == kernel::Op::text && e->text == n.stem; });
    }
    static std::span<const Ex> runs(const Call& issue) {
        return std::span(issue.operands).subspan(2, issue.operands.size() - 4);
    }
    static int64_t run_length(const Call& issue) { return issue.operands[1].constant().value_or(0); }
    Place own_a(const Call& issue) const {
        const Place p = place(issue.operands[issue.operands.size() - 2]);
        TEGULA_CHECK(p.name == a_.name, "operands A of one statement lie in one place");
        return p;
    }
    Place own_b(const Call& issue) const {
        const Place p = place(issue.operands.back());
        TEGULA_CHECK(p.name == b_.name, "operands B of one statement lie in one place");
        return p;
    }

    void find_registers() {
        for (const Call* issue : issues_) {
            for (const Ex run : runs(*issue)) {
                const Place p = place(run);
                TEGULA_CHECK(p.name == sum_, "the sums of one statement lie in one array");
                for (int64_t i = 0; i < run_length(*issue) && !named_sum_; ++i)
                    registers_.emplace(p.offset + i, issue->row->op == KernelOp::wgmma_start);
            }
            if (descriptor_ || named_a_) continue;
            for (int64_t i = 0; i < 4; ++i) factors_.push_back(own_a(*issue).offset - a_.offset + i);
        }
        std::sort(factors_.begin(), factors_.end());
        factors_.erase(std::unique(factors_.begin(), factors_.end()), factors_.end());
    }
    std::string register_text(int64_t r) const {
        if (named_sum_) return std::string(sum_->text) + number(r);
        return "%" + number(std::distance(registers_.begin(), registers_.find(r)));
    }

    /// An instruction, behind the sums of its descriptors.
    void add(std::string& out, const Call& issue) const {
        const auto first_a = static_cast<int64_t>(registers_.size()),
                   first_b = first_a + (descriptor_ ? 1 : static_cast<int64_t>(factors_.size()));
        std::string shifts, a = "%" + number(first_a), b = "%" + number(first_b);
        const auto shift = [&](const char* to, std::string& operand, int64_t by) {
            if (!by) return;
            shifts += (shifts.empty() ? "add.s64 " : " add.s64 ") + std::string(to) + ", " + operand + ", " +
                      number(by) + ";";
            operand = to;
        };
        if (descriptor_) {
            shift("a", a, own_a(issue).offset - a_.offset);
        } else {
            const int64_t from = own_a(issue).offset;
            a.clear();
            for (int64_t i = 0; i < 4; ++i) {
                const auto given = std::lower_bound(factors_.begin(), factors_.end(), from - a_.offset + i);
                a += (i ? ", " : "{") + (named_a_ ? std::string(a_.name->text) + number(from + i)
                                                  : "%" + number(first_a + (given - factors_.begin())));
            }
            a += "}";
        }
        shift("b", b, own_b(issue).offset - b_.offset);
        if (!shifts.empty()) out += "        \"" + shifts + "\\n\"\n";
        std::string sum;
        for (const Ex run : runs(issue))
            for (int64_t i = 0; i < run_length(issue); ++i)
                sum += (sum.empty() ? "" : ", ") + register_text(place(run).offset + i);
        const Ex form = issue.operands[0];
        out += "        \"wgmma.mma_async.sync.aligned." + std::string(form->text) + " \"\n        \"{" + sum + "}, " +
               a + ", " + b + ", " + (issue.row->op == KernelOp::wgmma_start ? "no" : "yes");
        for (const kernel::Node* immediate : form->operands) out += ", " + Ex(immediate).text();
        out += ";\\n\"\n";
    }

    const kernel::Kernel& kernel_;
    std::vector<const Call*> issues_;
    bool fence_ = false, commit_ = false, named_sum_ = false, named_a_ = false, descriptor_ = false;
    std::string wait_;  ///< empty: none
    Ex sum_;
    Place a_, b_;                        ///< of the first instruction
    std::map<int64_t, bool> registers_;  ///< of the sum's array, and whether their values are made anew
    std::vector<int64_t> factors_;       ///< of A's array, counted from those of the first instruction
};

class Joiner {
public:
    explicit Joiner(kernel::Kernel& kernel) : kernel_(kernel) {}
    std::string run() {
        body(kernel_.body);
        Body declared;
        for (const auto& [stem, count] : kernel_.named)
            declared.push_back({kernel::Text{"asm volatile(\".reg .b32 " + stem + "<" + number(count) + ">;\");"}});
        kernel_.body.insert(kernel_.body.begin(), declared.begin(), declared.end());
        return std::move(functions_);
    }

private:
    void body(Body& statements) {
        Body out;
        for (size_t i = 0; i < statements.size();) {
            const std::vector<const Call*> rows = products_at(statements, i);
            if (!rows.empty()) {
                out.push_back({kernel::Text{call(Products(rows, kernel_))}});
                i += rows.size();
                continue;
            }
            Statement& s = statements[i++];
            std::visit([&](auto& is) { inside(is); }, s.is);
            if (const auto* row = std::get_if<Call>(&s.is); row && row->row->op == KernelOp::named_set)
                s = {kernel::Text{moves(row->operands[0], row->operands[1], true)}};
            else if (row && row->row->op == KernelOp::named_get)
                s = {kernel::Text{moves(row->operands[1], row->operands[0], false)}};
            out.push_back(std::move(s));
        }
        statements = std::move(out);
    }
    template <class T>
    void inside(T&) {}
    void inside(kernel::Roles& s) {
        for (auto& part : s.parts) body(part.body);
    }
    void inside(kernel::For& s) { body(s.body); }
    void inside(kernel::Block& s) { body(s.body); }
    void inside(kernel::If& s) {
        body(s.yes);
        body(s.no);
    }

    /// The rows from `at` on that are one statement; none where no product is issued.
    static std::vector<const Call*> products_at(const Body& statements, size_t at) {
        std::vector<const Call*> out;
        const auto take = [&](const auto& wanted) {
            const Call* call = at < statements.size() ? std::get_if<Call>(&statements[at].is) : nullptr;
            if (!call || !wanted(*call->row)) return false;
            out.push_back(call);
            ++at;
            return true;
        };
        const auto is = [](KernelOp op) { return [op](const kernel::Row& row) { return row.op == op; }; };
        const auto issues = [](const kernel::Row& row) {
            return row.queue == kernel::Queue::wgmma && row.has(kernel::ISSUES);
        };
        take(is(KernelOp::wgmma_fence));
        if (!take(issues)) return {};
        while (take(issues)) continue;
        if (take(is(KernelOp::wgmma_commit))) take(is(KernelOp::wgmma_wait));
        return out;
    }

    std::string call(const Products& products) {
        const std::string text = products.text();
        std::string& name = names_[text];
        if (name.empty()) {
            name = "wgmma_" + products.shape() + "_" + number(static_cast<int64_t>(names_.size()) - 1) + "_steps";
            functions_ += "// " + products.doc() + "\n__device__ __forceinline__ void " + name + text;
        }
        return name + products.arguments() + ";";
    }

    /// All registers of the name, set to those of the array, or to zero, or got from there.
    std::string moves(Ex name, Ex array, bool set) const {
        const std::string stem(name->text);
        const auto named =
            std::find_if(kernel_.named.begin(), kernel_.named.end(), [&](const auto& n) { return n.stem == stem; });
        TEGULA_CHECK(named != kernel_.named.end(), stem + ": registers that are not declared");
        const bool zero = set && array.is(0);
        std::string out, operands;
        for (int64_t r = 0; r < named->count; ++r) {
            const std::string mine = stem + number(r), other = zero ? "0" : "%" + number(r);
            out += "mov.b32 " + (set ? mine : other) + ", " + (set ? other : mine) + "; ";
            if (!zero)
                operands += (r ? ", \"" : "\"") + std::string(set ? "" : "=") + constraint(array) + "\"(" +
                            array.text() + "[" + number(r) + "])";
        }
        return "asm volatile(\"" + out + "\"" + (zero ? "" : set ? " :: " : " : ") + operands + ");";
    }

    kernel::Kernel& kernel_;
    std::map<std::string, std::string> names_;  ///< by text
    std::string functions_;
};

}  // namespace

std::string print_products(kernel::Kernel& kernel) { return Joiner(kernel).run(); }

}  // namespace tegula::cuda
