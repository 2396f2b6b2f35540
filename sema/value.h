// What an expression is while it is elaborated: a compile-time value, a type, a tile in the IR, a tensor view, or a bundle of these.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/ir.h"

namespace tegula::sema {

struct Module;
struct Value;

/// A type as the language sees it (wider than ir Type).
struct TypeDesc {
    enum Kind : uint8_t { any, scalar_format, tile, tensor, pointer, tuple, structure, trait } kind = any;
    FormatId pointee{};                                   ///< tensor: of ptr<pointee>, whose storage is addresses (elem is u64); else none
    FormatId elem{};                                      ///< scalar_format (also shape-polymorphic in fn signatures), tile, tensor, pointer
    Shape shape{};                                        ///< tile
    LayoutId layout{};                                    ///< tensor
    std::vector<TypeDesc> items;                          ///< tuple
    const ast::StructItem* decl = nullptr;                ///< structure
    std::shared_ptr<const std::vector<TypeDesc>> fields;  ///< structure
    std::string_view trait_name;                          ///< int, sint, uint, float, number, any
};

struct Tensor {                  ///< a tensor parameter
    ir::ValueId handle{};        ///< elements
    ir::ValueId scales{};        ///< block formats
    ir::ValueId tensor_scale{};  ///< block formats with one: rank-0 tensor handle
    FormatId elem{};             ///< as declared (maybe a block format)
    FormatId pointee{};  ///< of a tensor of pointers, whose elements are addresses; else none
    LayoutId layout{};
    ast::ParamMode mode{};
    std::string_view name;
    std::vector<Value> extents;  ///< constant_int or scalar i64 tiles
    int block_axis = -1;         ///< the dimension blocks lie along (innermost in storage)
};

/// Static information about values: kinds poison (an error was reported; silently absorbs everything) to lambda.
struct Value {
    enum Kind : uint8_t {
        poison,
        unit,
        none,
        integer,
        real,
        boolean,
        text,
        type,
        layout,
        tile,
        block_tile,
        tensor,
        tuple,
        structure,
        list,
        function,
        builtin,
        elementwise,
        lambda,
        module,
        word
    } kind = poison;
    Span span;       ///< where it came from, for labels
    __int128 i = 0;  ///< integer literal or constant: adapts to any type that holds it exactly
    double r = 0;    ///< real: adapts to any float type (one rounding of the decimal)
    int rest = 0;    ///< real: the sign of what a literal says minus `r`, which is nearest to it
    bool b = false;
    std::string_view s;  ///< text, word; the kind of a word, where it is known, is `t.trait_name`
    TypeDesc t;          ///< type
    LayoutId layout_id{};
    ir::ValueId v{};                       ///< tile (scalars are rank 0); block_tile: elements
    ir::ValueId scales{}, tensor_scale{};  ///< block_tile
    FormatId elem{};                       ///< block_tile: the block format
    int block_axis = -1;                   ///< block_tile: the dimension its blocks lie along; -1: the last
    std::shared_ptr<Tensor> tensor_ref;    ///< tensor
    std::vector<Value> items;              ///< tuple, list (array literal), structure (fields in order)
    const ast::StructItem* decl = nullptr;
    const Module* home = nullptr;  ///< module; function, lambda: where its names are looked up
    const ast::FnItem* fn = nullptr;
    const ast::Item* generic_item = nullptr;  ///< type, layout: a generic item that still needs its arguments (struct, type, layout items)
    const ast::Item* made_from = nullptr;     ///< type, layout: the generic item whose defaults gave this; `<..>` may still replace them
    std::vector<Value> generics;              ///< function, builtin: explicit generics in order of the declaration (kind `none`: not given)
    int row = -1;                             ///< builtin: row of builtins.def
    ir::Op op{};                              ///< elementwise row
    const ast::LambdaExpr* lambda_expr = nullptr;
    std::shared_ptr<struct Scope> scope;  ///< lambda: where it was written

    bool is_static_number() const { return kind == integer || kind == real || kind == boolean; }
};

}  // namespace tegula::sema
