// Written by scripts/grammars.py out of the tables of the language.
// A loose grammar, which takes any text: tokens in balanced brackets, with what declares and calls named. The language server knows the rest.
module.exports = grammar({
  name: 'tile',
  extras: $ => [/\s/, $.comment],
  word: $ => $.identifier,
  rules: {
    source_file: $ => repeat($._element),
    _element: $ => choice(
      $.definition, $.test, $.import, $.call, $.attribute, $.arguments, $.brackets, $.block,
      $.string, $.number, $.boolean, $.keyword, $.builtin_type, $.identifier, $.operator, $._word, $.other
    ),
    definition: $ => prec(2, seq(field('kind', choice('fn', 'kernel', 'struct', 'type', 'layout', 'const')), field('name', $.identifier))),
    test: $ => prec(2, seq(choice('test', 'bench'), $.string)),
    import: $ => prec(2, seq('import', choice($.string, $.identifier))),
    call: $ => prec(1, seq(field('function', $.identifier), $.arguments)),
    attribute: $ => prec(1, seq('@', $.identifier)),
    arguments: $ => seq('(', repeat($._element), ')'),
    brackets: $ => seq('[', repeat($._element), ']'),
    block: $ => seq('{', repeat($._element), '}'),
    // Words that declare something in their place, elsewhere: `layout` may be a parameter, and `fn` stands before what has no name yet.
    _word: $ => choice(alias(choice('type', 'layout', 'test', 'bench'), $.identifier), alias(choice('fn', 'kernel', 'struct', 'const', 'import'), $.keyword)),
    boolean: $ => choice('false', 'none', 'true'),
    keyword: $ => choice('let', 'var', 'if', 'else', 'for', 'while', 'break', 'continue', 'return', 'where'),
    builtin_type: $ => choice('f64', 'f32', 'tf32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'f8e4m3fnuz', 'f8e5m2fnuz', 'f6e3m2', 'f6e2m3', 'f4e2m1', 'f8e8m0', 'bool', 'tile', 'tensor', 'ptr', 'float', 'fixed', 'ufixed', 'lns', 'codebook', 'block', /[iu]([1-9]|[1-5][0-9]|6[0-4])/),
    identifier: $ => /[A-Za-z_][A-Za-z0-9_]*/,
    number: $ => token(choice(
      /0x[0-9a-fA-F][0-9a-fA-F_]*(\.[0-9a-fA-F][0-9a-fA-F_]*)?([pP][+-]?[0-9][0-9_]*)?/, /0b[01][01_]*/, /0o[0-7][0-7_]*/,
      /[0-9][0-9_]*(\.[0-9][0-9_]*)?([eE][+-]?[0-9][0-9_]*)?/
    )),
    string: $ => token(seq('"', repeat(choice(/[^"\\\n]/, /\\./)), '"')),
    comment: $ => token(choice(/\/\/[^\n]*/, seq('/*', /[^*]*\*+([^/*][^*]*\*+)*/, '/'))),
    operator: $ => choice("<<=", ">>=", "!=", "%=", "&&", "&=", "**", "*=", "++", "+:", "+=", "-=", "->", "..", "/=", ":=", "<<", "<=", "==", "=>", ">=", ">>", "^=", "|=", "||", "!", "%", "&", "*", "+", ",", "-", ".", "/", ":", ";", "<", "=", ">", "?", "@", "^", "|", "~"),
    other: $ => token(prec(-1, /[^\s]/))
  }
});
