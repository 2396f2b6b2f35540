; Written by scripts/grammars.py out of the tables of the language.
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
 (#match? @function.builtin "^(abs|add|address|all|any|arange|argmax|argmin|argsort|assert|assert_close|assert_equal|assert_fails|assume|atomic_add|atomic_and|atomic_cas|atomic_max|atomic_min|atomic_or|atomic_xchg|atomic_xor|bit_and|bit_not|bit_or|bit_xor|bitcast|bits|block_elements|block_scales|broadcast|cast|cat|cdiv|ceil|clz|copysign|ctz|cumprod|cumsum|div|div_ceil|div_trunc|dot|dot_scaled|elem|empty|epsilon|eq|expand|fast_cos|fast_exp2|fast_log2|fast_rcp|fast_rsqrt|fast_sin|fast_tanh|flip|floor|flush_subnormal|fma|format|full|gather|ge|grid_barrier|gt|histogram|insert|iota|is_float|is_int|is_signed|isfinite|isinf|isnan|join|le|load|load_npy|load_safetensors|lt|make_block|map|max|max_value|maxnum|min|min_value|minnum|mul|mulhi|ne|neg|num_programs|ones|pack|permute|pointer|pointers|popcount|print|prod|program_id|ptx|rand|randint|randn|rank|reduce|rem|rem_trunc|repeat|reshape|round|scan|select|shl|shr|signbit|size|slice|sort|split|sqrt|squeeze|stack|static_assert|store|sub|sum|tile_of|topk|trans|trunc|umulhi|unjoin|unpack|view|zeros)$"))
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
