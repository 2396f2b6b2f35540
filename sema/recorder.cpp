// What elaboration tells a recorder: types and values of names, and which field a member is.
#include "sema/recorder.h"

#include "sema/elaborate.h"
#include "sema/walk.h"

namespace tegula::sema {

/// The type, and the value where it is a constant.
std::string Elaborator::fact_of(const Value& v) {
    const auto list = [&](const char* open, const char* close) {
        constexpr size_t kMost = 8;
        std::string text = open;
        for (size_t i = 0; i < v.items.size() && i < kMost; ++i) text += (i ? ", " : "") + fact_of(v.items[i]);
        return text + (v.items.size() > kMost ? ", .." : "") + close;
    };
    switch (v.kind) {
        case Value::integer:
            return "int = " + int_text(v.i);
        case Value::real:
            return "real = " + real_text(v.r);
        case Value::boolean:
            return v.b ? "bool = true" : "bool = false";
        case Value::text:
            return "text";
        case Value::type:
            return "type = " + describe(v.t);
        case Value::layout:
            return "layout = " + types_.layout(v.layout_id).name();
        case Value::word:
            return (v.t.trait_name.empty() ? std::string("word") : std::string(v.t.trait_name)) + " = " + std::string(v.s);
        case Value::tile:
            return types_.name(ir().fn().type_of(v.v));
        case Value::block_tile:
            return "tile<" + types_.format(v.elem).name + ">" + to_string(ir().fn().type(v.v).shape);
        case Value::tensor: {
            const Tensor& t = *v.tensor_ref;
            std::string text = "tensor<" + (t.pointee.v ? "ptr<" + types_.format(t.pointee).name + ">" : types_.format(t.elem).name) + ">[";
            for (size_t i = 0; i < t.extents.size(); ++i)
                text += (i ? ", " : "") + (t.extents[i].kind == Value::integer ? int_text(t.extents[i].i) : std::string("?"));
            return text + "]" + (t.layout.v ? " @ " + types_.layout(t.layout).name() : "");
        }
        case Value::tuple:
            return list("(", v.items.size() == 1 ? ",)" : ")");
        case Value::list:
            return list("[", "]");
        case Value::structure:
            return v.decl ? std::string(v.decl->name.text) : "struct";
        default:
            return {};
    }
}

void Elaborator::record(Span at, const Value& v) {
    if (!recorder_ || v.kind == Value::poison || !recorder_->asks(at)) return;
    if (std::string text = fact_of(v); !text.empty()) recorder_->fact(at, std::move(text));
}

void Elaborator::record_field(const Value& structure, const ast::Name& member) {
    if (!recorder_ || structure.kind != Value::structure || !structure.decl) return;
    for (const ast::Field& field : structure.decl->fields)
        if (field.name.text == member.text) recorder_->use(member.span, field.name.span);
}

/// What a call leaves to its arguments to say.
void Elaborator::record_generics(const ast::FnItem& fn, const Scope& scope, Span callee_end) {
    if (!recorder_) return;
    for (const ast::GenericParam& p : fn.generics) record(p.name.span, scope.find(p.name.text)->value);
    if (!callee_end.valid() || fn.generics.empty() || !recorder_->asks(callee_end)) return;
    std::string text;
    for (const ast::GenericParam& p : fn.generics)
        text += (text.empty() ? "<" : ", ") + std::string(p.name.text) + " = " + describe_plain(scope.find(p.name.text)->value);
    recorder_->fact(callee_end, text + ">");
}

}  // namespace tegula::sema
