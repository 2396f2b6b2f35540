// Products of few rows (product_few.h). k ascends in chunks (squares of turned rows), runs (what depends on quotients by k stays) and steps
// (unrolled); accumulators stay in registers all the way.
#include "jit/cpu/product_few.h"

#include "jit/cpu/block_words.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

using Values = std::vector<Value*>;

constexpr int64_t kRowsAhead = 16;  ///< of memory, that are asked for
constexpr int64_t kMaskedSteps = 2;  ///< of k that are unrolled at the edges of tensors, where masks take the time

class FewRowsEmitter {
public:
    FewRowsEmitter(Codegen& g, ir::InstId dot, const Product& p, const FewRows& of)
        : g_(g),
          b_(g.b()),
          dot_(dot),
          p_(p),
          of_(of),
          right_(g.fn().operands(g.fn().inst(dot))[1]),
          element_(g.scalars().type(of.chain, 0)),
          vector_(g.scalars().type(of.chain, p.lanes)),
          words_(llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes)) {}

    void run() {
        const int64_t full = p_.n / p_.block() * p_.block();
        g_.loop(0, full, p_.block(), [&](Value* n) { columns(n, p_.block()); });
        if (full < p_.n) columns(g_.i64(full), p_.n - full);
    }

private:
    /// All of k for `width` columns from n on.
    void columns(Value* n, int64_t width) {
        const llvm::Align align(p_.bytes);
        const int64_t vectors = (width + p_.lanes - 1) / p_.lanes, tail = width % p_.lanes;
        Value* some = tail ? b_.CreateICmpSLT(g_.lane_numbers(p_.lanes), g_.splat(g_.i32(tail), p_.lanes)) : nullptr;
        points_.clear();
        for (int64_t v = 0; v < vectors; ++v) {
            Point p = of_.right;
            p.lanes = p_.lanes;
            p.index[p.rank - 1u] = {Index::consecutive, v ? b_.CreateAdd(n, g_.i64(v * p_.lanes)) : n, p_.lanes};
            if (v + 1 == vectors) p.active = some;
            points_.push_back(p);
        }
        const auto place = [&](int64_t row, const Point& p) {
            return b_.CreateGEP(element_, of_.sums, b_.CreateAdd(p.index[p.rank - 1u].value, g_.i64(row * p_.n)));
        };
        Values sums;
        for (int64_t row = 0; row < p_.m; ++row)
            for (const Point& p : points_)
                sums.push_back(p.active ? g_.masked_load(vector_, place(row, p), p.active, llvm::Constant::getNullValue(vector_), align)
                                        : b_.CreateAlignedLoad(vector_, place(row, p), align));
        sums = chunks(width, std::move(sums));
        for (size_t i = 0; i < sums.size(); ++i) {
            const Point& p = points_[i % points_.size()];
            Value *sum = g_.scalars().settle(of_.chain, sums[i]), *at = place(static_cast<int64_t>(i / points_.size()), p);
            if (p.active)
                g_.masked_store(sum, at, p.active, align);
            else
                b_.CreateAlignedStore(sum, at, align);
        }
    }

    /// body(from + i, by) for i = 0, by, .. and the rest.
    Values stretches(Value* from, int64_t count, int64_t by, Values sums, const std::function<Values(Value* at, int64_t count, Values now)>& body) {
        const int64_t full = count / by * by;
        sums = g_.loop(g_.i64(0), g_.i64(full), by, std::move(sums),
                       [&](Value* i, Values now) { return body(b_.CreateAdd(from, i), by, std::move(now)); });
        if (full < count) sums = body(b_.CreateAdd(from, g_.i64(full)), count - full, std::move(sums));
        return sums;
    }

    /// Without masks as far as all that is read is in range.
    Values chunks(int64_t width, Values sums) {
        steps_ = p_.step;
        const auto loop = [&](Value* from, Value* to, Values now, const auto& body) {
            return g_.loop(from, to, p_.chunk, std::move(now), [&](Value* k, Values at) { return body(k, p_.chunk, std::move(at)); });
        };
        kept_ = p_.kept && !points_[0].active && g_.can_turn_rows(p_.turned[0].load, p_.turned[0].k);
        const auto quick = [&](Value* k, int64_t count, Values now) {
            return kept_ ? kept_chunk(k, std::move(now)) : chunk(k, count, std::move(now));
        };
        const int64_t full = p_.k / p_.chunk * p_.chunk;
        Value *whole = inside_until(kept_ ? p_.lanes : width, full), *const end = g_.i64(full);
        const bool all = whole == end;  // is inside
        Value* const blocks = in_blocks();
        if (blocks) {
            const bool covered = std::all_of(p_.turned.begin(), p_.turned.end(), [](const TurnedLoad& t) { return !t.block || t.block->covered; });
            whole = covered ? b_.CreateSelect(blocks, whole, g_.i64(0)) : g_.i64(0);
        }
        const auto masked = [&](Value* k, int64_t count, Values now) {
            if (!blocks) steps_ = std::min(kMaskedSteps, p_.step);
            return blocks ? some_blocks(blocks, k, count, std::move(now)) : chunk(k, count, std::move(now));
        };
        if (full) {
            g_.inside(inside_, [&] { sums = loop(g_.i64(0), whole, std::move(sums), quick); });
            sums = loop(whole, end, std::move(sums), masked);
        }
        if (full == p_.k) return sums;
        steps_ = blocks ? 1 : std::min(kMaskedSteps, p_.step);
        const auto rest = [&] { sums = chunk(end, p_.k - full, std::move(sums), blocks == nullptr); };
        all ? g_.inside(inside_, rest) : rest();
        return sums;
    }

    /// A multiple of chunks, at most `full`, before which nothing that is read of `count` columns is out of range.
    Value* inside_until(int64_t count, int64_t full) {
        Value* until = g_.i64(full);
        inside_.clear();
        for (const TurnedLoad& load : p_.loads) {
            Value* const own = g_.inside_until(load.load, load.k, load.n, first_row(load), count);
            const auto* known = llvm::dyn_cast<llvm::ConstantInt>(own);
            if (!known || known->getSExtValue() < p_.k) until = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, until, own);
            inside_.push_back(load.load);
        }
        return b_.CreateAnd(until, g_.i64(-p_.chunk));
    }

    /// i1: do all blocks of declared layouts lie as they were analysed? Null: there are none.
    Value* in_blocks() {
        Value* out = nullptr;
        for (const TurnedLoad& load : p_.turned)
            if (load.block) out = out ? b_.CreateAnd(out, g_.in_blocks(load.load, load)) : g_.in_blocks(load.load, load);
        return out;
    }

    /// A chunk at the edges of tensors: by blocks where all of these are in storage, else element by element.
    Values some_blocks(Value* in_blocks, Value* k, int64_t count, Values sums) {
        for (const TurnedLoad& load : p_.turned) {
            if (!load.block) continue;
            Point first = first_row(load);
            first.index[load.k] = g_.uniform(k);
            for (size_t v = 0; v < points_.size(); ++v) {
                Point at = first;
                at.index[load.n] = g_.uniform(b_.CreateAdd(first.index[load.n].value, g_.i64(static_cast<int64_t>(v * p_.lanes))));
                in_blocks = b_.CreateAnd(in_blocks, g_.block_in_storage(load.load, *load.block, at));
            }
        }
        Value *once = g_.i64(1), *blocks = b_.CreateZExt(in_blocks, b_.getInt64Ty());
        sums = g_.loop(g_.i64(0), blocks, 1, std::move(sums), [&](Value*, Values now) { return chunk(k, count, std::move(now)); });
        steps_ = 1;
        sums = g_.loop(blocks, once, 1, std::move(sums), [&](Value*, Values now) { return chunk(k, count, std::move(now), false); });
        steps_ = p_.step;
        return sums;
    }

    /// A square that stays in registers.
    Values kept_chunk(Value* k, Values sums) {
        const TurnedLoad& load = p_.turned[0];
        Point first = first_row(load);
        first.index[load.k] = g_.uniform(k);
        count_steps(k, p_.chunk);
        const Point p = load_point(load, points_[0]);
        TurnedRun run{g_.fn().result(load.load), false, {p.index.begin(), p.index.begin() + p.rank}, load.k, k_, {}};
        run.words = g_.turned_rows(load.load, load.n, first, p_.lanes);
        g_.with_turned({std::move(run)}, [&] { sums = step(k, p_.chunk, std::move(sums)); });
        return sums;
    }

    /// Of lane 0 of the block's first vector.
    Point first_row(const TurnedLoad& load) {
        Point first = load_point(load, points_[0]);
        first.lanes = 0;
        first.active = nullptr;
        if (load.n < first.rank) first.index[load.n] = g_.uniform(first.index[load.n].value);
        return first;
    }

    void count_steps(Value* k, int64_t count) {
        k_.clear();
        for (int64_t j = 0; j < count; ++j) k_.push_back(j ? b_.CreateAdd(k, g_.i64(j)) : k);
    }

    Values chunk(Value* k, int64_t count, Values sums, bool blocks = true) {
        squares_.clear();
        for (size_t t = 0; t < p_.turned.size(); ++t) {
            const TurnedLoad& load = p_.turned[t];
            if (load.block ? !blocks : !g_.can_turn_rows(load.load, load.k)) continue;
            Value* area = g_.work_pointer(dot_, p_.a_bytes + t * p_.steps_n * p_.square_bytes());
            const auto square = [&](Value* v) {
                return b_.CreateGEP(b_.getInt8Ty(), area, b_.CreateMul(v, g_.i64(static_cast<int64_t>(p_.square_bytes()))));
            };
            Point first = first_row(load);
            first.index[load.k] = g_.uniform(k);
            const Index columns = first.index[load.n];
            g_.loop(0, static_cast<int64_t>(points_.size()), 1, [&](Value* v) {
                first.index[load.n] = g_.uniform(b_.CreateAdd(columns.value, b_.CreateMul(v, g_.i64(p_.lanes))));
                if (load.block)
                    g_.load_block(load.load, *load.block, first, square(v));
                else
                    g_.turn_rows(load.load, load.k, load.n, first, count, p_.lanes, square(v));
            });
            for (size_t v = 0; v < points_.size(); ++v) squares_.push_back({&load, v, square(g_.i64(static_cast<int64_t>(v)))});
        }
        return stretches(k, count, p_.run, sums, [&](Value* run, int64_t length, Values at_run) {
            const Values zeros(at_run.size(), llvm::Constant::getNullValue(vector_));
            Values after = stretches(run, length, steps_, of_.scale ? zeros : at_run, [&](Value* at, int64_t some, Values now) {
                Values next;
                g_.with_turned(turned(at, b_.CreateSub(at, k), some), [&] { next = step(run, some, std::move(now)); });
                return next;
            });
            const Index& column = points_[0].index[points_[0].rank - 1u];
            return of_.scale ? of_.scale(run, column.value, std::move(at_run), std::move(after)) : after;
        });
    }

    Point load_point(const TurnedLoad& load, const Point& p) {
        Point out = p;
        out.rank = static_cast<uint8_t>(load.dims.size());
        for (size_t d = 0; d < load.dims.size(); ++d) out.index[d] = load.dims[d] < 0 ? g_.uniform(0) : p.index[static_cast<size_t>(load.dims[d])];
        return out;
    }

    /// Words of `count` elements from k on, `offset` of them behind the squares' first.
    std::vector<TurnedRun> turned(Value* k, Value* offset, int64_t count) {
        count_steps(k, count);
        std::vector<TurnedRun> out;
        for (const Square& s : squares_) {
            const Point p = load_point(*s.load, points_[s.vector]);
            TurnedRun run{g_.fn().result(s.load->load), false, {p.index.begin(), p.index.begin() + p.rank}, s.load->k, k_, {}};
            if (const BlockWords* block = s.load->block.get()) {
                const auto slots = static_cast<int64_t>(block->slots());
                Value* first = b_.CreateMul(b_.CreateUDiv(offset, g_.i64(block->step)), g_.i64(slots));
                for (int64_t w = 0; w < slots; ++w)
                    run.words.push_back(b_.CreateAlignedLoad(words_, b_.CreateGEP(words_, s.words, b_.CreateAdd(first, g_.i64(w))), llvm::Align(4)));
                for (const BlockWords::Field& f : block->fields) run.bits.push_back(f.slot * 32 + f.bit);
                out.push_back(std::move(run));
                continue;
            }
            const int64_t bits = s.load->bits, stride = steps_ * bits;  // from step to step
            Value* bit = b_.CreateMul(offset, g_.i64(bits));
            Value *first = b_.CreateLShr(bit, 5), *shift = g_.splat(b_.CreateTrunc(b_.CreateAnd(bit, g_.i64(31)), b_.getInt32Ty()), p_.lanes);
            const auto word = [&](int64_t w) {
                return b_.CreateAlignedLoad(words_, b_.CreateGEP(words_, s.words, b_.CreateAdd(first, g_.i64(w))), llvm::Align(4));
            };
            for (int64_t w = 0; w < (count * bits + 31) / 32; ++w) {
                Value* own = word(w);
                if (stride % 32 != 0)
                    own = 32 % stride == 0 ? b_.CreateLShr(own, shift) : b_.CreateIntrinsic(words_, llvm::Intrinsic::fshr, {word(w + 1), own, shift});
                run.words.push_back(own);
            }
            out.push_back(std::move(run));
        }
        return out;
    }

    Values step(Value* run, int64_t count, Values sums) {
        for (int64_t j = 0; j < count; ++j) {
            Values factors;
            for (size_t v = 0; v < points_.size(); ++v) {
                Point p = points_[v];
                ask_for(k_[static_cast<size_t>(j)], v);
                p.index[p.rank - 2u] = g_.uniform(k_[static_cast<size_t>(j)]);
                p.index[p.rank - 2u].run = run, p.index[p.rank - 2u].run_length = p_.run;
                factors.push_back(of_.factor(g_.lanes(right_, p), p_.lanes));
            }
            for (int64_t row = 0; row < p_.m; ++row) {
                Value* at = b_.CreateGEP(element_, of_.left, b_.CreateAdd(k_[static_cast<size_t>(j)], g_.i64(row * of_.left_row)));
                Value* left = g_.splat(b_.CreateAlignedLoad(element_, at, llvm::Align(p_.bytes)), p_.lanes);
                for (size_t v = 0; v < points_.size(); ++v) {
                    Value*& sum = sums[static_cast<size_t>(row) * points_.size() + v];
                    sum = of_.step(sum, left, factors[v]);
                }
            }
        }
        return sums;
    }

    /// Rows that run along n lie far apart, and processors do not look that far ahead: what vector v will read there, a line of the caches at a time.
    void ask_for(Value* k, size_t v) {
        for (const TurnedLoad& load : p_.loads) {
            if (load.k == load.dims.size() || load.n == load.dims.size() || !g_.is_inside(load.load) || v * p_.lanes * load.bits % 512 != 0) continue;
            Point p = load_point(load, points_[v]);
            p.index[load.k] = g_.uniform(b_.CreateAdd(k, g_.i64(kRowsAhead)));
            g_.ask_for(load.load, load.n, p);
        }
    }

    struct Square {
        const TurnedLoad* load;
        size_t vector;
        Value* words;
    };

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::InstId dot_;
    const Product& p_;
    const FewRows& of_;
    const ir::ValueId right_;
    llvm::Type *element_, *vector_, *words_;
    std::vector<Point> points_;  ///< of the block's vectors of columns
    std::vector<Square> squares_;
    std::vector<ir::InstId> inside_;  ///< loads that are not masked where all they read is in range
    bool kept_ = false;               ///< there squares stay in registers
    int64_t steps_ = 1;               ///< of k that are unrolled
    Values k_;                        ///< coordinates of a step
};

}  // namespace

void few_rows(Codegen& g, ir::InstId dot, const Product& p, const FewRows& of) { FewRowsEmitter(g, dot, p, of).run(); }

}  // namespace tegula::cpu
