" Written by scripts/grammars.py out of the tables of the language.
if exists('b:current_syntax')
  finish
endif
syntax keyword tileControl import if else for while break continue return
syntax keyword tileDeclare const struct fn kernel let var where
syntax keyword tilePlaced as type layout test bench in step grid tune dispatch schedule out inout edition
syntax keyword tileConstant false none true
syntax keyword tileType f64 f32 tf32 f16 bf16 f8e4m3 f8e5m2 f8e4m3fnuz f8e5m2fnuz f6e3m2 f6e2m3 f4e2m1 f8e8m0 bool tile tensor ptr float fixed ufixed lns codebook block int sint uint integer float number any
syntax match tileType /\v<[iu]([1-9]|[1-5]\d|6[0-4])>/
syntax keyword tileFunction abs add address all any arange argmax argmin argsort assert assert_close assert_equal assert_fails assume atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor bit_and bit_not bit_or bit_xor bitcast bits block_elements block_scales broadcast cast cat cdiv ceil clz copysign ctz cumprod cumsum div div_ceil div_trunc dot dot_scaled elem empty epsilon eq expand fast_cos fast_exp2 fast_log2 fast_rcp fast_rsqrt fast_sin fast_tanh flip floor flush_subnormal fma format full gather ge grid_barrier gt histogram insert iota is_float is_int is_signed isfinite isinf isnan join le load load_npy load_safetensors lt make_block map max max_value maxnum min min_value minnum mul mulhi ne neg num_programs ones pack permute pointer pointers popcount print prod program_id ptx rand randint randn rank reduce rem rem_trunc repeat reshape round scan select shl shr signbit size slice sort split sqrt squeeze stack static_assert store sub sum tile_of topk trans trunc umulhi unjoin unpack view zeros
syntax match tileNumber /\v<(0x\x[0-9a-fA-F_]*(\.\x+)?([pP][+-]?\d+)?|0b[01_]+|0o[0-7_]+|\d[0-9_]*(\.\d[0-9_]*)?([eE][+-]?\d+)?)>/
syntax match tileAttribute /@\s*\h\w*/
syntax region tileString start=/"/ skip=/\\./ end=/"/ oneline
syntax match tileComment /\/\/.*$/
syntax region tileComment start=/\/\*/ end=/\*\//
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
