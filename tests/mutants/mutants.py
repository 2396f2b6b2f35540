# Planted faults (run.py): name, category, file, where, suites that should see it, the cheapest first.
#
# `where` is a stretch of the file's text, found exactly once, with `{{old ==> new}}` in it. Most are expressions: all of them stand in one build, and
# the environment chooses the one that is alive. `text` marks those that are no expressions (text of kernels, constants of the compiler): each has a
# build of its own. Whatever else may be written there, an equivalent program must not come out: a fault that nobody can see tells nothing.
#
# A suite is a unit test with its filter; or a machine and a file of tests: `interp`, `cpu` or `on_cpu` (the GPU that the CPU plays).

MASKS, PACKING, ROUNDING, BARRIERS = "masks", "packing", "rounding", "barriers"
SIGNS, REDUCTIONS, CASTS, KEYS, LAUNCHES, PASSES = "sign extension", "reductions", "casts", "cache keys", "launch checks", "passes"

BOUNDS, MASK_PASS = "lower/bounds.cpp", "lower/masks.cpp"
GUARD = "cpu_guard_test"
CALLS = "cpu_scalars_test --gtest_filter=*EveryRounding*:*CastsOnSingle*"

FAULTS = [
    # ---- masks: what is proved of indices, what is tested where nothing is proved ----
    ("remainder_bound", MASKS, BOUNDS, "Atom::remainder, 0, {{by - 1 ==> by - 2}}, true", ["bounds_test"]),
    ("grid_bound", MASKS, BOUNDS, "bound->constant -= {{aligned ? g.tile : 1 ==> g.tile}};", ["bounds_test"]),
    ("grid_factor", MASKS, BOUNDS, "&& {{coefficient >= -g.tile ==> coefficient >= -g.tile - 1}})", ["bounds_test"]),
    ("grid_axis", MASKS, BOUNDS, "if ({{g.axis != atom.axis ==> false}}) continue;", ["bounds_test"]),
    ("counter_bound", MASKS, BOUNDS, "bound.constant, {{aligned ? step : 1 ==> known ? step : 1}}, &bound.constant", ["bounds_test"]),
    ("multiple_that_wrapped", MASKS, BOUNDS, ": {{actual(v, depth) ==> exact(v, depth)}};\n    return form &&", ["bounds_test"]),
    ("sign_of_what_wrapped", MASKS, BOUNDS, "work_ = 0;\n    const auto form = {{actual(v) ==> exact(v, 0)}};", ["bounds_test"]),
    ("quotient_bound", MASKS, BOUNDS, "add_scaled(form, *x, {{c - !whole ==> c}})", ["bounds_test"]),
    ("quotient_sign", MASKS, BOUNDS, "if ({{positive && nonnegative(form, steps) ==> nonnegative(form, steps)}}) return true;", ["bounds_test"]),
    ("larger_of_two", MASKS, BOUNDS, ": {{with(operands[0]) && with(operands[1]) ==> with(operands[0]) || with(operands[1])}};", ["bounds_test"]),
    ("value_that_wrapped", MASKS, BOUNDS, "return {{it->second ? form : std::nullopt ==> form}};", ["bounds_test"]),
    ("divisor_of_a_term", MASKS, BOUNDS, "({{by % divisor == 0 && term.second % (by / divisor) == 0 ==> by % divisor == 0}});", ["bounds_test"]),
    ("dim_of_another_tensor", MASKS, BOUNDS, "if ({{d.tensor != p.name ==> false}} || static_cast", ["bounds_test"]),
    ("strict_comparison", MASKS, BOUNDS, "{{def->op == Op::lt || def->op == Op::gt ==> def->op == Op::lt}});", ["bounds_test"]),
    ("one_of_two_masks", MASKS, BOUNDS, "return {{always_true(operands[0], depth + 1) && always_true(operands[1], depth + 1) ==> always_true(operands[0], depth + 1)}};", ["bounds_test"]),
    ("end_of_a_range", MASKS, MASK_PASS, "at_least(*extent, *first, {{high + 1 ==> high}})", ["bounds_test"]),
    ("other_of_axes_outside", MASKS, MASK_PASS, "all_inside &= {{newly || axis.in_bounds || axis.kind == Access::all ==> true}};", ["bounds_test"]),
    ("other_under_a_mask", MASKS, MASK_PASS, "all_inside && {{(always || !operands.mask) ==> true}} ? operands.other", ["bounds_test"]),
    ("mask_before_other", MASKS, MASK_PASS, "{{std::max(mask.at, other.at) ==> std::min(mask.at, other.at)}}, std::min(", ["bounds_test", "lower_test"]),
    ("maximum_without_nans", MASKS, "lower/nonpositive.cpp", "if ({{kind != ReduceKind::maxnum && (kind != ReduceKind::max || number) ==> kind != ReduceKind::maxnum && kind != ReduceKind::max}}) return false;", ["lower_test"]),
    ("largest_nonpositive", MASKS, "lower/nonpositive.cpp", "return {{is(0) && is(1) ==> is(0) || is(1)}};\n        case Op::min", ["lower_test"]),
    ("only_value", MASKS, "lower/extents.cpp", "return {{low == high && low > 0 ==> low > 0}} ? low", ["lower_test"]),
    ("interp_below_zero", MASKS, "jit/interp/access.h", "return {{index_[axis] >= 0 ==> index_[axis] >= -1}} && index_[axis] <", ["interp_run_test", GUARD]),
    ("cpu_negative_start", MASKS, "jit/cpu/access.cpp", "low = {{first && !first->isNegative() ==> true}} ? zero", [GUARD]),
    ("cpu_index", MASKS, "jit/cpu/access.cpp", "const auto inside = [&] { return {{b_.CreateICmpULT(v, extent(a)) ==> b_.CreateICmpULE(v, extent(a))}}; };", [GUARD]),
    ("cpu_gathered_index", MASKS, "jit/cpu/access.cpp", "Value* in = {{b_.CreateICmpULT(v, g_.splat(extent(a), q.lanes)) ==> b_.CreateICmpULE(v, g_.splat(extent(a), q.lanes))}};", [GUARD]),
    ("cuda_index", MASKS, "lower/kernel/text.h", "inline Ex within(Ex number, Ex end) { return {{lt ==> le}}(u64(number), u64(end)); }", ["on_cpu tests/run/edges.tile"]),
    ("cuda_range", MASKS, "lower/kernel/access/part.cpp", "ranges = both(ranges, {{lt ==> le}}(u32(c - axis.low), u32(axis.count)));", ["on_cpu tests/run/edges.tile"]),

    # ---- packing: elements that share bytes ----
    ("neighbours_behind", PACKING, "lang/storage.cpp", "static_cast<uint8_t>(window) | {{(*at & (0xFFu << held)) ==> 0u}});", ["storage_test"]),
    ("neighbours_before", PACKING, "lang/storage.cpp", "Accumulator window = {{held ? *at & ((1u << held) - 1) : 0 ==> 0u}};", ["storage_test"]),
    ("ninth_byte", PACKING, "lang/storage.cpp", "return {{bytes == 9 ==> bytes > 9}} ? low |", ["storage_test"]),
    ("narrow_accumulator", PACKING, "lang/storage.cpp", "if ({{f.bits <= 56 ==> f.bits <= 58}})", ["storage_test"]),
    ("window_behind_the_end", PACKING, "lang/storage.cpp", "(at >> 3) + {{8 ==> 7}} <= end_byte", ["storage_test", GUARD]),
    ("wide_window", PACKING, "lang/storage.cpp", "else if ({{width <= 57 ==> width <= 58}})", ["storage_test"]),
    ("cpu_word_of_lanes", PACKING, "jit/cpu/scalars_packed.cpp", "return {{bits <= 18 ==> bits <= 19}} ? 32", ["cpu_packed_test"]),
    ("cpu_byte_behind", PACKING, "jit/cpu/scalars_packed.cpp", "byte_of(some, {{7 ==> 8}})", [GUARD]),
    ("cpu_straddling_element", PACKING, "jit/cpu/scalars_packed.cpp", "for (unsigned k = 0; {{k <= sure ==> k < sure}}; ++k)", ["cpu_packed_test"]),
    ("cpu_neighbours", PACKING, "jit/cpu/scalars_packed_stores.cpp", "b.CreateAnd(old, {{b.CreateNot(own) ==> old}})", ["cpu_packed_test"]),
    ("cpu_last_byte", PACKING, "jit/cpu/scalars_packed_stores.cpp", "b_.CreateConstGEP1_64(i8, at, bytes), {{b_.CreateNot(own) ==> own}}, ", ["cpu_packed_test"]),
    ("cuda_ninth_byte", PACKING, "jit/cuda/device/load_bits.cuh", "text: if (kWidth > {{57 ==> 59}} && bytes == 9)", ["cuda_prelude_test --gtest_filter=*BitOffsets*"]),
    ("cuda_third_word", PACKING, "jit/cuda/device/store_bits.cuh", "text: for (int i = 0; i < {{3 ==> 2}}; ++i) {\n        const int down", ["cuda_prelude_test --gtest_filter=*BitOffsets*", "on_cpu tests/run/edges.tile"]),

    # ---- rounding ----
    ("ties_to_even", ROUNDING, "lang/round.cpp", "return half && {{(rest || (cut.whole & 1)) ==> rest}};", ["round_test"]),
    ("sticky", ROUNDING, "lang/round.cpp", "significand >> (shift - 64) : 0, {{true ==> sticky}}};", ["round_test"]),
    ("subnormals", ROUNDING, "lang/round.cpp", "if ({{!f.subnormal ==> false}} && magnitude", ["round_test"]),
    ("negative_ties_of_integers", ROUNDING, "lang/round.cpp", "(rest < -0.5 || {{(rest == -0.5 && (whole & 1)) ==> rest == -0.5}})", ["format_test", "round_test"]),
    ("ties_of_tables", ROUNDING, "lang/round.cpp", "if ({{compare_distance(x, tail, f.table[i], f.table[best]) < 0 ==> compare_distance(x, tail, f.table[i], f.table[best]) <= 0}})", ["format_test"]),
    ("cpu_sticky", ROUNDING, "jit/cpu/scalars_round.cpp", "b_.CreateOr(sticky, {{b_.CreateICmpUGT(shift, k64) ==> b_.CreateICmpUGE(shift, k64)}});", [CALLS]),
    ("cpu_downward", ROUNDING, "jit/cpu/scalars_round.cpp", "case Round::rd:\n            return b_.CreateAnd({{negative ==> b_.CreateNot(negative)}}, ", [CALLS]),
    ("cpu_minus_zero", ROUNDING, "jit/cpu/scalars_round.cpp", "if ({{!f.negative_zero ==> false}}) sign", [CALLS, "cpu_scalars_test --gtest_filter=*CastsBetween*"]),
    ("cpu_two_roundings", ROUNDING, "jit/cpu/scalars_float.cpp", "Value* odd = {{b_.CreateOr(b_.CreateSub(bits, b_.CreateZExt(beyond, bits->getType())), i(bits, 1)) ==> bits}};", [CALLS, "cpu_scalars_test --gtest_filter=*CastsBetween*"]),
    ("cuda_ties_to_even", ROUNDING, "jit/cuda/device/encode_rne.cuh", "text: (1u << (22 - kMantissa)) - 1) + {{(m >> (23 - kMantissa) & 1) ==> 1}}) >>", ["cuda_prelude_test"]),
    ("cuda_upward", ROUNDING, "jit/cuda/device/number.cuh", "text: | ((mode == 3) & {{negative ==> !negative}});\n}", ["cuda_prelude_test"]),

    # ---- barriers: when threads meet, and who checks it ----
    ("readers_and_writers", BARRIERS, "lower/gpu/effects.cpp", "case Touch::workspace:\n            return {{(a.writes || b.writes) ==> (a.writes && b.writes)}} &&", ["gpu_passes_test --gtest_filter=GpuBarriers*", "on_cpu tests/run/meetings.tile"]),
    ("tensors_that_overlap", BARRIERS, "lower/gpu/effects.cpp", "!b.valid()) return true;\n    return {{options_.may_alias ==> false}};", ["gpu_passes_test --gtest_filter=GpuBarriers*", "gpu_passes_test"]),
    ("written_before_it_is_read", BARRIERS, "lower/gpu/effects.cpp", "if (!t.writes && {{never_written(t.object) ==> true}}) return;", ["gpu_passes_test --gtest_filter=GpuBarriers*", "gpu_passes_test"]),
    ("back_edges", BARRIERS, "lower/gpu/barriers.cpp", "grew_ = {{head.join(out) || grew_ ==> grew_}};", ["gpu_passes_test --gtest_filter=GpuBarriers*"]),
    ("needed_barriers", BARRIERS, "lower/gpu/barriers.cpp", "if ({{!placer.sound() ==> false}}) g = kept;", ["gpu_passes_test --gtest_filter=GpuBarriers*"]),
    ("other_branch", BARRIERS, "lower/gpu/barriers.cpp", "{{out.join(walk(blocks[1], std::move(s))) ==> out.join(out)}};\n                return out;", ["gpu_passes_test --gtest_filter=GpuBarriers*"]),
    ("fences_of_operands", BARRIERS, "lower/gpu/effects.cpp", "return {{a.space == Touch::shared ? overlap(a, b) : a.space == Touch::ring && a.object == b.object ==> a.space == Touch::ring && a.object == b.object}};", ["gpu_passes_test --gtest_filter=GpuBarriers*"]),
    ("blind_proof", BARRIERS, "lower/gpu/prove.cpp", "if ({{effects_.conflict(from, to) && (from.space != Touch::ring || released) ==> false}})", ["gpu_passes_test --gtest_filter=GpuBarriers*"]),
    ("blind_proof_of_fences", BARRIERS, "lower/gpu/prove.cpp", "if ({{EffectTable::needs_fence(from, to) ==> false}})", ["gpu_passes_test --gtest_filter=GpuBarriers*"]),
    ("stages_under_way", BARRIERS, "lower/gpu/prove_ahead.cpp", "if ({{distance + !own_ > stages ==> distance > stages}})", ["channels_test"]),
    ("stages_of_late_products", BARRIERS, "lower/gpu/prove_late.cpp", "if ({{u.trip == trip - gpu.late && reads(u.product, fn_.operands(inst)[0]) ==> false}})", ["gpu_passes_test --gtest_filter=GpuPasses.TextOf*"]),
    ("wait_for_late_products", BARRIERS, "lower/kernel/product/wgmma.cpp", "{{gpu.late ? gpu.wait : 0 ==> gpu.late && gpu.wait >= 0 ? gpu.wait + 1 : gpu.late ? -1 : 0}}", ["on_cpu tests/run/late_products.tile"]),
    ("first_late_release", BARRIERS, "lower/kernel/channel/ring.cpp", "const bool first = {{ctx.fn.gpu_inst(id).late && ctx.late.later_trip ==> false}};", ["on_cpu tests/run/late_products.tile"]),
    ("first_trips", BARRIERS, "lower/gpu/prove_ahead.cpp", "|| {{c != trip * step_ ==> false}})", ["channels_test"]),
    ("one_copy_more", BARRIERS, "lower/gpu/channels_ahead.cpp", "const int64_t distance = {{plan.own ? plan.stages : plan.stages - 1 ==> plan.stages}};", ["channels_test"]),
    ("meeting_in_a_tree", BARRIERS, "lower/kernel/reduce/reduce.cpp", "ctx.out.close();\n        {{sync(ctx) ==> void()}};\n        ctx.out.close();\n    }\n    fill(ctx, to,", ["on_cpu tests/run/meetings.tile"]),
    ("meeting_of_a_scan", BARRIERS, "lower/kernel/reduce/scan.cpp", "ctx.out.close();\n    ctx.out.close();\n    {{sync(ctx) ==> void()}};", ["on_cpu tests/run/meetings.tile"]),

    # ---- sign extension ----
    ("fixed_point", SIGNS, "lang/format.cpp", "bool sign = f.is_signed && {{(f.kind == FormatKind::integer || f.kind == FormatKind::fixed) ==> f.kind == FormatKind::integer}};", ["storage_test", "format_test"]),
    ("runs_of_fixed_point", SIGNS, "lang/storage.cpp", "return f.is_signed && {{(f.kind == FormatKind::integer || f.kind == FormatKind::fixed) ==> f.kind == FormatKind::integer}};", ["storage_test"]),
    ("cpu_one_bit_spare", SIGNS, "jit/cpu/scalars.cpp", "if ({{f.bits >= container ==> f.bits + 1u >= container}}) return v;", ["cpu_packed_test"]),
    ("cuda_narrow_containers", SIGNS, "lower/kernel/formats/values.cpp", "spare = {{(container < 32 ? 32u : container) ==> container}} - f.bits;", ["cuda_prelude_test"]),
    ("cuda_atomics", SIGNS, "lower/kernel/access/atomic.cpp", "({{text::extends_sign(f) ==> false}} ? \"((int)(old", ["on_cpu tests/run/edges.tile"]),

    # ---- reductions ----
    ("cpu_tail", REDUCTIONS, "jit/cpu/emit_reduce.cpp", "if (!number || {{number->getSExtValue() < whole ==> number->getSExtValue() <= whole}})", ["cpu_reduce_test"]),
    ("identity_of_maxima", REDUCTIONS, "lang/joining.cpp", "return {{f.is_float() && f.has_inf && f.is_signed ? inf_code(f, true) : lowest_code(f) ==> lowest_code(f)}};", ["reduce_identity_test"]),
    ("identity_of_sums", REDUCTIONS, "lang/joining.cpp", "encode(f, {{f.negative_zero ? -0.0 : 0.0 ==> 0.0}})", ["reduce_identity_test"]),
    ("last_level_of_a_tree", REDUCTIONS, "jit/interp/reduce.cpp", "for (int64_t t = half / 2; {{t > 0 ==> t > 1}}; t /= 2) row.apply(m.chunks, tree, tree", ["interp_tiles_test"]),
    ("nans_of_minima", REDUCTIONS, "lang/joining.cpp", "return {{format.is_bool() ? Op::min : Op::minnum ==> Op::min}};", ["reduce_identity_test"]),
    ("cuda_chain", REDUCTIONS, "lower/kernel/reduce/reduce.cpp", "open_rolled(ctx, k_name, ctx.pool.{{number(1) ==> number(0)}}, ctx.pool.number(lines.n))", ["on_cpu tests/run/meetings.tile"]),

    # ---- casts ----
    ("saturating_identity", CASTS, "lower/fold_rules.cpp", "const bool keeps = {{overflow == Overflow::automatic || overflow == Overflow::ieee || n.exact() ==> true}};", ["lower_test"]),
    ("cuda_same_width", CASTS, "lower/kernel/formats/cast.cpp", "to.is_signed && {{to.bits > from.bits ==> to.bits >= from.bits}};", ["cuda_prelude_test"]),
    ("cuda_smallest_integer", CASTS, "lower/kernel/formats/cast.cpp", "std::to_string(high) + suffix + {{\" - 1\" ==> \"\"}};", ["cuda_prelude_test"]),
    ("cpu_directed_prefix", CASTS, "jit/cpu/scalars_cast.cpp", "round != Round::ru && {{round != Round::rd ==> true}})", [CALLS]),

    # ---- cache keys ----
    ("object_of_smaller_tensors", KEYS, "jit/cpu/arguments.cpp", "({{options.bounds ==> false}} ? \"bounds \" : \"\")", ["cpu_cache_test"]),
    ("object_of_other_strides", KEYS, "jit/cpu/arguments.cpp", "key += {{std::to_string(t.strided) ==> std::string()}} + \",\"", ["cpu_cache_test"]),
    ("variant_of_smaller_tensors", KEYS, "jit/cpu/launch.cpp", "{{options.bounds ? 'b' : '-' ==> '-'}}, ", ["cpu_cache_test", "cpu_kernel_test"]),
    ("cuda_whole_clusters", KEYS, "jit/cuda/program.cpp", "({{traits.whole_clusters ==> false}} ? \"w\" : \"p\")", ["launch_test", "launch_program_test"]),
    ("cuda_spread_stretches", KEYS, "jit/cuda/program.cpp", "({{traits.spread ==> true}} ? \"s\" : \"t\")", ["launch_program_test"]),
    ("entry_of_another_key", KEYS, "jit/cache/entry.cpp", "content - key_size && {{prefix.substr(head, key_size) == key ==> true}};", ["cache_test --gtest_filter=*own_key*"]),
    ("instance_with_other_passes", KEYS, "jit/engine/compile.cpp", "disabled) {{key += \"\\n-\" + pass ==> key += \"\"}};", ["engine_test"]),
    ("attributes_of_equal_expressions", KEYS, "lower/cse.cpp", "fn_.attrs(inst)) {{k.push_back(static_cast<uint64_t>(a)) ==> void()}};", ["lower_test"]),

    # ---- launch checks ----
    ("last_element_outside", LAUNCHES, "jit/cpu/arguments.cpp", "Wide low = 0, high = {{bits ==> 0}};", ["cpu_kernel_test --gtest_filter=*EndsWithinTheLastElement*"]),
    ("one_byte_shared", LAUNCHES, "jit/cpu/arguments.cpp", "return from && other && {{from < other + b.bytes ==> from + 1 < other + b.bytes}} &&", ["cpu_kernel_test --gtest_filter=*OneSharedByte*"]),
    ("elements_that_coincide", LAUNCHES, "jit/cpu/arguments.cpp", "if ({{stride <= span ==> stride < span}}) return true;", ["cpu_kernel_test"]),
    ("written_views_that_overlap", LAUNCHES, "jit/engine/launch.cpp", "if ({{nested && (n == 0 || view.strides[n - 1] > 0) ==> true}}) return {};", ["dlpack_test", "api_storage_test", "api_test", "engine_test"]),
    ("grids_too_large", LAUNCHES, "jit/engine/launch.cpp", "return {{all <= uint64_t{1} << 62 ==> true}};", ["api_launch_test --gtest_filter=*HugeExtents*"]),
    ("last_piece_of_a_grid", LAUNCHES, "jit/cuda/launch.cpp", "static_cast<unsigned>({{std::min(piece_, total_ - first) ==> piece_}});", ["launch_test"]),
    ("memory_budget", LAUNCHES, "jit/cpu/launch.cpp", "if ({{!options.memory_budget || out.code->scratch_bytes <= options.memory_budget ==> true}})", ["cpu_machine_test --gtest_filter=*BudgetsEndRuns*"]),

    # ---- other passes ----
    ("loads_over_stores", PASSES, "lower/licm.cpp", "|| {{has_trait_within(fn_, loop, WRITES) ==> false}}) return false;", ["lower_test"]),
    ("loads_on_both_sides", PASSES, "lower/cse.cpp", "if (closed) std::swap(outer, known_);\n        epoch_ += {{writes ==> false}};", ["lower_test"]),
    ("reported_quotients", PASSES, "lang/evaluate.cpp", "if ({{divisor == 0 ==> false}}) return Undefined::by_zero", ["lower_test", "engine_test"]),
]
