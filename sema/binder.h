// Binding of one launch (internal to sema): generics and extents from what the host gives. Problems are collected as lines of one diagnostic.
#pragma once
#include "sema/elaborate.h"

namespace tegula::sema {

class Binder {
public:
    Binder(const Module& module, const ast::KernelItem& kernel, TypeTable& types, DiagSink& diags, Span at, TuneChooser* chooser,
           int64_t nominal_extent = 1);
    std::optional<LaunchPlan> launch(const StaticValues& given, std::span<const ArgumentType> arguments);
    std::optional<StaticValues> statics(const StaticValues& given, bool require);
    std::optional<LaunchPlan> nominal(const StaticValues& given);

private:
    void note(std::string_view param, const std::string& text);
    void take_given(const StaticValues& given);
    void deduce_from(const ast::Param& p, const ArgumentType& a);
    void bind_dims(const ast::Param& p, const ast::IndexExpr& form, const ArgumentType& a);
    bool bind_extent(const ast::Param& p, const ast::IndexItem& item, std::string_view name, int64_t value);
    bool solve_dim(const ast::Param& p, const ast::IndexItem& item, int64_t extent);
    void take_extents(StaticValues& given);
    void solve_extents(std::span<const ArgumentType> arguments);
    bool complete_generics(bool require, bool representatives);
    struct Tuned {
        const ast::GenericParam* param;
        std::vector<StaticValue> values;
    };
    [[nodiscard]] bool is_tuned(const ast::GenericParam& p) const;
    void define_defaults();
    std::optional<std::vector<Tuned>> open_choices(bool require);
    bool set_tuned(const std::vector<Tuned>& open, std::span<const size_t> pick);
    TuneCandidate candidate(const std::vector<Tuned>& open);
    bool tune(bool require);
    std::optional<bool> where_holds(bool report);
    std::optional<ArgumentType> infer(const ast::Param& p);
    void check_param(const ast::Param& p, ArgumentType& a);
    void check_tensor(const ast::Param& p, const ast::IndexExpr& form, ArgumentType& a);
    void check_layout(const ast::Param& p, const TypeDesc& declared, const ArgumentType& a);
    void bind_scalar(const ast::Param& p, const ArgumentType* a);
    void choose_segments();
    void grid();
    bool set_generic(const ast::GenericParam& p, const StaticValue& v, std::string_view from);
    const ast::GenericParam* generic(std::string_view name) const;
    bool set_choice(const ast::GenericParam& p, Choice& choice);
    std::optional<StaticValue> static_of(const Value& v, const ast::Expr* e = nullptr);
    Value generic_value(const ast::GenericParam& p, const ast::Expr& e, const char* clause);
    bool is_open(const ast::Expr& e);  ///< mentions an extent or parameter without a value
    std::string values_in(const ast::Expr& e);
    Value value(const ast::Expr& e, const char* clause, std::string_view param = {});
    std::string why_unknown(const Value& v);
    void define_index(std::string_view name, int64_t value, Span span = {});
    void note_memory(const ast::Expr& e, std::string_view param);
    /// The code of a number in `f`; nullopt where `f` does not hold it. `exact`: reals too, which take one rounding otherwise.
    std::optional<uint64_t> scalar_code(const Format& f, const StaticValue& v, bool exact = false);

    const Module& module_;
    const ast::KernelItem& kernel_;
    TypeTable& types_;
    DiagSink& diags_;
    Span at_;
    Limits limits_;
    Elaborator e_;
    std::shared_ptr<Scope> scope_;
    std::vector<std::string_view> extent_names_;
    std::map<std::string_view, std::string_view> extent_from_;
    std::vector<std::string> problems_;
    size_t own_problems_ = 0;  ///< problems, when nothing else kept outputs from following from the arguments
    LaunchPlan plan_;
    TuneChooser* chooser_;
    int64_t nominal_extent_;
};

}  // namespace tegula::sema
