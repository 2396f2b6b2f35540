// What elaboration tells a recorder: types and values of names, and which field a member is.
#include "sema/recorder.h"

#include "sema/elaborate.h"
#include "sema/walk.h"

namespace tegula::sema {

NameFact Elaborator::fact_of(const Value& v) {
    const auto list = [&](const char* open, const char* close) {
        constexpr size_t kMost = 8;
        NameFact out{open, {}, open};
        for (size_t i = 0; i < v.items.size() && i < kMost; ++i) {
            const NameFact item = fact_of(v.items[i]);
            const char* separator = i ? ", " : "";
            out.type += separator + item.type;
            out.text += separator + item.text;
        }
        for (std::string* text : {&out.type, &out.text}) *text += std::string(v.items.size() > kMost ? ", .." : "") + close;
        return out;
    };
    switch (v.kind) {
        case Value::integer:
            return fact_of_constant("int", int_text(v.i));
        case Value::real:
            return fact_of_constant("real", real_text(v.r));
        case Value::boolean:
            return fact_of_constant("bool", v.b ? "true" : "false");
        case Value::text:
            return fact_of_type("text");
        case Value::type:
            return fact_of_constant("type", describe(v.t));
        case Value::layout:
            return fact_of_constant("layout", types_.layout(v.layout_id).name());
        case Value::word:
            return fact_of_constant(v.t.trait_name.empty() ? std::string("word") : std::string(v.t.trait_name), std::string(v.s));
        case Value::tile: {
            const TypeId type = ir().fn().type_of(v.v);
            NameFact out = fact_of_type(types_.name(type));
            if (const Type& t = types_.type(type); t.kind == Type::tile)
                out.bits = types_.format(t.elem).bits * static_cast<uint64_t>(t.shape.elements());
            return out;
        }
        case Value::block_tile:
            return fact_of_type("tile<" + types_.format(v.elem).name + ">" + to_string(ir().fn().type(v.v).shape));
        case Value::tensor: {
            const Tensor& t = *v.tensor_ref;
            std::string text = "tensor<" + (t.pointee.v ? "ptr<" + types_.format(t.pointee).name + ">" : types_.format(t.elem).name) + ">[";
            for (size_t i = 0; i < t.extents.size(); ++i)
                text += (i ? ", " : "") + (t.extents[i].kind == Value::integer ? int_text(t.extents[i].i) : std::string("?"));
            NameFact out = fact_of_type(text + "]" + (t.layout.v ? " @ " + types_.layout(t.layout).name() : ""));
            if (t.layout.v) out.layout = types_.layout(t.layout).name(), out.rank = t.extents.size();
            return out;
        }
        case Value::tuple:
            return list("(", v.items.size() == 1 ? ",)" : ")");
        case Value::list:
            return list("[", "]");
        case Value::structure:
            return fact_of_type(v.decl ? std::string(v.decl->name.text) : "struct");
        default:
            return {};
    }
}

void Elaborator::record(Span at, const Value& v) {
    if (!recorder_ || v.kind == Value::poison || !recorder_->asks(at)) return;
    if (NameFact fact = fact_of(v); !fact.text.empty()) recorder_->fact(at, std::move(fact));
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
    recorder_->fact(callee_end, fact_of_type(text + ">"));
}

}  // namespace tegula::sema
