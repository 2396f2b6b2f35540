#!/usr/bin/env python3
# The grammars of editors, out of the tables of the language: keywords and operators of parser/scanner.re, formats, built-in functions and hints.
# grammars.py ROOT writes them below editors/; grammars.py ROOT --check says which are not current.
import json, pathlib, re, sys

root = pathlib.Path(sys.argv[1])


def read(path):
    return (root / path).read_text(encoding="utf-8")


# ---- tables ----

rules = read("parser/scanner.re")
# Words of the grammar are keywords everywhere (make), or where the grammar has a place for them (word).
always = re.findall(r'^ +"(\w+)" +\{ return make\(', rules, re.M)
in_place = re.findall(r'^ +"(\w+)" +\{ return word\(', rules, re.M)
operators = sorted(set(re.findall(r'^ +"([^\w\s"]+)" +\{ return', rules, re.M)) - set("()[]{}"), key=lambda o: (-len(o), o))
functions = re.findall(r"^BUILTIN\((\w+),", read("sema/builtins.def"), re.M) + re.findall(r"^ELEMENTWISE\((\w+),", read("lang/ops.def"), re.M)
functions += re.findall(r"^HOST_CALL\((\w+),", read("lang/host_calls.def"), re.M)
functions = sorted(set(functions))
formats = [name for name in re.findall(r"^FORMAT\((\w+),", read("lang/formats.def"), re.M) if name != "boolean"]
formats = [name for name in formats if not re.fullmatch(r"[iu]\d+", name)] + ["bool"]
types = read("sema/types.cpp")
listed = lambda name: re.findall(r'"(\w+)"', re.search(name + r"\[\] = \{(.*?)\}", types, re.S).group(1))
constructors, traits = listed("kConstructors"), listed("kTraits")
hints = sorted(set(re.findall(r'\{"(?:loop attribute|kernel attribute|function attribute|schedule)", "(\w+)"', read("sema/check_module.cpp"))))
literals = {"true", "false", "none"}
assert len(always) > 15 and len(in_place) > 8 and len(functions) > 100 and len(operators) > 30 and len(hints) > 10, "a table has another form now"

# Where a word that is a keyword in its place only stands as one, as far as one line tells.
name = r"[A-Za-z_]\w*"
places = {
    "as": r"(?<=[\w)\]}>\"] )as\b", "step": r"(?<=[\w)\]}>\"] )step\b", "in": rf"(?<=[\w)\]}}>\"] )in\b|\bin\b(?= +{name} *:)",
    "out": rf"\bout\b(?= +{name})", "inout": rf"\binout\b(?= +{name})", "grid": r"^ *grid\b(?= *[\[(])|(?<=[)\]>}] )grid\b",
    "tune": rf"^ *tune\b(?= +{name})|(?<=[)\]}}>] )tune\b", "dispatch": rf"^ *dispatch\b(?= +{name})|(?<=[)\]}}>] )dispatch\b",
    "schedule": rf"^ *schedule\b(?= +{name})|(?<=[)\]}}>] )schedule\b", "type": rf"^ *type\b(?= +{name})", "layout": rf"^ *layout\b(?= +{name})",
    "test": r'\btest\b(?= *")', "bench": r'\bbench\b(?= *")', "edition": r"^ *edition\b(?= +\d)",
}
assert set(places) == set(in_place), "a word has come to the scanner, or gone: say where it is a keyword"
words = lambda list_of: r"\b(?:" + "|".join(list_of) + r")\b"
control = [w for w in always if w in ("if", "else", "for", "while", "break", "continue", "return", "import")]
declaring = [w for w in always if w not in control and w not in literals]
number = r"\b(?:0x[0-9a-fA-F][0-9a-fA-F_]*(?:\.[0-9a-fA-F][0-9a-fA-F_]*)?(?:[pP][+-]?\d[\d_]*)?|0b[01][01_]*|0o[0-7][0-7_]*|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d[\d_]*)?)(?!\w)"
integers = r"\b[iu](?:[1-9]|[1-5]\d|6[0-4])\b"

# ---- TextMate ----

escape = {"name": "constant.character.escape.tile", "match": r'\\(?:[nt\\"]|x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]+\})'}
textmate = {
    "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
    "name": "Tegula",
    "scopeName": "source.tile",
    "fileTypes": ["tile"],
    "patterns": [
        {"name": "comment.line.documentation.tile", "match": r"///.*$"},
        {"name": "comment.line.double-slash.tile", "match": r"//.*$"},
        {"name": "comment.block.tile", "begin": r"/\*", "end": r"\*/"},
        {"name": "string.quoted.double.tile", "begin": '"', "end": r'"|$', "patterns": [escape]},
        {"name": "constant.numeric.tile", "match": r"(?<!\w)" + number},
        {"match": r"\b(fn|kernel|struct)\s+(" + name + ")", "captures": {"1": {"name": "storage.type.tile"}, "2": {"name": "entity.name.function.tile"}}},
        {"name": "constant.language.tile", "match": words(sorted(literals))},
        {"name": "keyword.control.tile", "match": words(control)},
        {"name": "storage.type.tile", "match": words(declaring)},
        *({"name": "storage.modifier.tile" if w in ("in", "out", "inout") else "keyword.other.tile", "match": places[w]} for w in in_place),
        {"match": r"(@)\s*(" + "|".join(hints) + r")\b", "captures": {"1": {"name": "punctuation.definition.attribute.tile"}, "2": {"name": "entity.other.attribute-name.tile"}}},
        {"name": "support.type.tile", "match": r"(?<!\.)" + integers + r"|(?<!\.)" + words(formats + constructors + traits)},
        {"name": "support.function.tile", "match": r"(?<!\.)" + words(functions) + r"(?=\s*[(<])"},
        {"name": "entity.name.function.call.tile", "match": r"\b" + name + r"(?=\()"},
        {"name": "variable.other.tile", "match": r"\b" + name},
        {"name": "keyword.operator.tile", "match": "|".join(re.escape(o) for o in operators)},
    ],
}

# ---- tree-sitter ----

quoted = lambda list_of: ", ".join(f"'{o}'" for o in list_of)
in_place_only, begins_item = ["type", "layout", "test", "bench"], ["fn", "kernel", "struct", "const", "import"]
assert set(in_place_only) <= set(in_place) and set(begins_item) <= set(always)
tree_sitter = f"""// Written by scripts/grammars.py out of the tables of the language.
// A loose grammar, which takes any text: tokens in balanced brackets, with what declares and calls named. The language server knows the rest.
module.exports = grammar({{
  name: 'tile',
  extras: $ => [/\\s/, $.comment],
  word: $ => $.identifier,
  rules: {{
    source_file: $ => repeat($._element),
    _element: $ => choice(
      $.definition, $.test, $.import, $.call, $.attribute, $.arguments, $.brackets, $.block,
      $.string, $.number, $.boolean, $.keyword, $.builtin_type, $.identifier, $.operator, $._word, $.other
    ),
    definition: $ => prec(2, seq(field('kind', choice({quoted(['fn', 'kernel', 'struct', 'type', 'layout', 'const'])})), field('name', $.identifier))),
    test: $ => prec(2, seq(choice('test', 'bench'), $.string)),
    import: $ => prec(2, seq('import', choice($.string, $.identifier))),
    call: $ => prec(1, seq(field('function', $.identifier), $.arguments)),
    attribute: $ => prec(1, seq('@', $.identifier)),
    arguments: $ => seq('(', repeat($._element), ')'),
    brackets: $ => seq('[', repeat($._element), ']'),
    block: $ => seq('{{', repeat($._element), '}}'),
    // Words that declare something in their place, elsewhere: `layout` may be a parameter, and `fn` stands before what has no name yet.
    _word: $ => choice(alias(choice({quoted(in_place_only)}), $.identifier), alias(choice({quoted(begins_item)}), $.keyword)),
    boolean: $ => choice({quoted(sorted(literals))}),
    keyword: $ => choice({quoted(w for w in always if w not in literals and w not in begins_item)}),
    builtin_type: $ => choice({quoted(formats + constructors)}, /[iu]([1-9]|[1-5][0-9]|6[0-4])/),
    identifier: $ => /[A-Za-z_][A-Za-z0-9_]*/,
    number: $ => token(choice(
      /0x[0-9a-fA-F][0-9a-fA-F_]*(\\.[0-9a-fA-F][0-9a-fA-F_]*)?([pP][+-]?[0-9][0-9_]*)?/, /0b[01][01_]*/, /0o[0-7][0-7_]*/,
      /[0-9][0-9_]*(\\.[0-9][0-9_]*)?([eE][+-]?[0-9][0-9_]*)?/
    )),
    string: $ => token(seq('"', repeat(choice(/[^"\\\\\\n]/, /\\\\./)), '"')),
    comment: $ => token(choice(/\\/\\/[^\\n]*/, seq('/*', /[^*]*\\*+([^/*][^*]*\\*+)*/, '/'))),
    operator: $ => choice({", ".join(json.dumps(o) for o in operators)}),
    other: $ => token(prec(-1, /[^\\s]/))
  }}
}});
"""
highlights = f"""; Written by scripts/grammars.py out of the tables of the language.
(comment) @comment
(string) @string
(number) @number
(boolean) @constant.builtin
(keyword) @keyword
(builtin_type) @type.builtin
(operator) @operator
(definition kind: _ @keyword name: (identifier) @function)
(test ["test" "bench"] @keyword)
(import "import" @keyword)
(attribute "@" @attribute (identifier) @attribute)
(call function: (identifier) @function.call)
((call function: (identifier) @function.builtin)
 (#match? @function.builtin "^({"|".join(functions)})$"))
["(" ")" "[" "]" "{{" "}}"] @punctuation.bracket
"""

# ---- vim ----

vim = f"""" Written by scripts/grammars.py out of the tables of the language.
if exists('b:current_syntax')
  finish
endif
syntax keyword tileControl {' '.join(control)}
syntax keyword tileDeclare {' '.join(declaring)}
syntax keyword tilePlaced {' '.join(in_place)}
syntax keyword tileConstant {' '.join(sorted(literals))}
syntax keyword tileType {' '.join(formats + constructors + traits)}
syntax match tileType /\\v<[iu]([1-9]|[1-5]\\d|6[0-4])>/
syntax keyword tileFunction {' '.join(functions)}
syntax match tileNumber /\\v<(0x\\x[0-9a-fA-F_]*(\\.\\x+)?([pP][+-]?\\d+)?|0b[01_]+|0o[0-7_]+|\\d[0-9_]*(\\.\\d[0-9_]*)?([eE][+-]?\\d+)?)>/
syntax match tileAttribute /@\\s*\\h\\w*/
syntax region tileString start=/"/ skip=/\\\\./ end=/"/ oneline
syntax match tileComment /\\/\\/.*$/
syntax region tileComment start=/\\/\\*/ end=/\\*\\//
highlight default link tileControl Statement
highlight default link tileDeclare Keyword
highlight default link tilePlaced Keyword
highlight default link tileConstant Constant
highlight default link tileType Type
highlight default link tileFunction Function
highlight default link tileNumber Number
highlight default link tileAttribute PreProc
highlight default link tileString String
highlight default link tileComment Comment
let b:current_syntax = 'tile'
"""

out = {
    "editors/vscode/syntaxes/tile.tmLanguage.json": json.dumps(textmate, indent=2) + "\n",
    "editors/tree-sitter-tile/grammar.js": tree_sitter,
    "editors/tree-sitter-tile/queries/highlights.scm": highlights,
    "editors/vim/syntax/tile.vim": vim,
}
old = [path for path, text in out.items() if not (root / path).exists() or read(path) != text]
if sys.argv[2:] == ["--check"]:
    print(*(f"{path} is not current: python3 scripts/grammars.py ." for path in old), sep="\n")
    sys.exit(bool(old))
for path in old:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(out[path], encoding="utf-8")
