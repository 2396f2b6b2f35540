// A minimal JIT for tests of jit/cpu/scalars.h: functions over arrays of containers, `lanes` elements per step, and inputs worth trying.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>

#include "jit/cpu/scalars.h"

namespace tegula::testing {

using llvm::Value;

/// One loop over arrays: operand k of step i is `in[k]` at i * lanes.
struct ArrayFunction {
    std::vector<Format> in;
    Format out;
    std::function<Value*(cpu::Scalars&, std::vector<Value*>)> body;
};
using ArrayEntry = void (*)(const void* const* in, void* out, int64_t n);

class ArrayJit {
public:
    /// `called`: what is heavy becomes calls when it is emitted the second time.
    explicit ArrayJit(bool plain_vectors = false, bool called = false) : plain_(plain_vectors) {
        if (called) features_.inlined = 0;
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
        auto machine = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
        if (plain_) {
            machine.setCPU("x86-64");
            machine.getFeatures() = llvm::SubtargetFeatures();
        }
        machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
        const auto host = llvm::sys::getHostCPUFeatures();
        features_.f16c = !plain_ && host.lookup("f16c");
        features_.fma = !plain_ && host.lookup("fma");
        features_.avx2 = !plain_ && host.lookup("avx2");
        features_.avx512 = !plain_ && host.lookup("avx512vl") && host.lookup("avx512dq") && host.lookup("avx512bw");
        jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create());
        llvm::orc::SymbolMap symbols;
        for (const cpu::HostFunction& f : cpu::host_functions())
            symbols[jit_->mangleAndIntern(f.name)] = {llvm::orc::ExecutorAddr::fromPtr(f.address), llvm::JITSymbolFlags::Exported};
        // What LLVM itself makes of loops.
        symbols[jit_->mangleAndIntern("memset")] = {llvm::orc::ExecutorAddr::fromPtr(&std::memset), llvm::JITSymbolFlags::Exported};
        symbols[jit_->mangleAndIntern("memcpy")] = {llvm::orc::ExecutorAddr::fromPtr(&std::memcpy), llvm::JITSymbolFlags::Exported};
        llvm::cantFail(jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
    }

    /// void (ptr, ptr, i64, i64) functions written by hand; the builder stands in an empty entry block, the return is added.
    using PlainEntry = void (*)(void*, void*, int64_t, int64_t);
    using PlainBody = std::function<void(llvm::IRBuilder<>&, cpu::Scalars&, llvm::Function*)>;
    std::vector<PlainEntry> compile_plain(const std::vector<PlainBody>& bodies) {
        auto context = std::make_unique<llvm::LLVMContext>();
        auto module = std::make_unique<llvm::Module>("test", *context);
        module->setDataLayout(jit_->getDataLayout());
        std::vector<std::string> names;
        for (const PlainBody& body : bodies) {
            names.push_back("f" + std::to_string(count_++));
            llvm::IRBuilder<> b(*context);
            cpu::Scalars scalars(b, features_);
            llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
            auto* fn = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, i64, i64}, false), llvm::GlobalValue::ExternalLinkage,
                                              names.back(), *module);
            b.SetInsertPoint(llvm::BasicBlock::Create(*context, "", fn));
            body(b, scalars, fn);
            b.CreateRetVoid();
        }
        return finish<PlainEntry>(std::move(module), std::move(context), names);
    }

    /// Compiles all functions as one module.
    std::vector<ArrayEntry> compile(const std::vector<ArrayFunction>& functions, unsigned lanes) {
        auto context = std::make_unique<llvm::LLVMContext>();
        auto module = std::make_unique<llvm::Module>("test", *context);
        module->setDataLayout(jit_->getDataLayout());
        std::vector<std::string> names;
        for (const ArrayFunction& f : functions) {
            names.push_back("f" + std::to_string(count_++));
            emit(*module, f, names.back(), lanes);
        }
        return finish<ArrayEntry>(std::move(module), std::move(context), names);
    }

private:
    template <class Entry>
    std::vector<Entry> finish(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
                              const std::vector<std::string>& names) {
        std::string problem;
        llvm::raw_string_ostream stream(problem);
        if (llvm::verifyModule(*module, &stream)) throw std::runtime_error(problem);
        optimise(*module);
        llvm::cantFail(jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
        std::vector<Entry> entries;
        for (const std::string& name : names) entries.push_back(llvm::cantFail(jit_->lookup(name)).template toPtr<Entry>());
        return entries;
    }

    void emit(llvm::Module& module, const ArrayFunction& f, const std::string& name, unsigned lanes) {
        llvm::LLVMContext& context = module.getContext();
        llvm::IRBuilder<> b(context);
        cpu::Scalars scalars(b, features_);
        llvm::Type *ptr = b.getPtrTy(), *i64 = b.getInt64Ty();
        auto* fn =
            llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, i64}, false), llvm::GlobalValue::ExternalLinkage, name, module);
        auto *entry = llvm::BasicBlock::Create(context, "", fn), *loop = llvm::BasicBlock::Create(context, "", fn),
             *end = llvm::BasicBlock::Create(context, "", fn);
        b.SetInsertPoint(entry);
        std::vector<Value*> base;
        for (size_t k = 0; k < f.in.size(); ++k) base.push_back(b.CreateLoad(ptr, b.CreateConstGEP1_64(ptr, fn->getArg(0), k)));
        b.CreateBr(loop);
        b.SetInsertPoint(loop);
        auto* at = b.CreatePHI(i64, 2);
        std::vector<Value*> operands;
        for (size_t k = 0; k < f.in.size(); ++k) {
            Value* place = b.CreateGEP(scalars.memory_type(f.in[k], 0), base[k], at);
            operands.push_back(scalars.from_memory(b.CreateAlignedLoad(scalars.memory_type(f.in[k], lanes), place, llvm::Align(1)), f.in[k]));
        }
        Value* r = scalars.to_memory(f.body(scalars, operands), f.out);
        b.CreateAlignedStore(r, b.CreateGEP(scalars.memory_type(f.out, 0), fn->getArg(1), at), llvm::Align(1));
        Value* next = b.CreateAdd(at, b.getInt64(lanes ? lanes : 1));
        at->addIncoming(b.getInt64(0), entry), at->addIncoming(next, b.GetInsertBlock());
        b.CreateCondBr(b.CreateICmpULT(next, fn->getArg(2)), loop, end);
        b.SetInsertPoint(end);
        b.CreateRetVoid();
    }

    static void optimise(llvm::Module& module) {
        llvm::LoopAnalysisManager loops;
        llvm::FunctionAnalysisManager functions;
        llvm::CGSCCAnalysisManager calls;
        llvm::ModuleAnalysisManager modules;
        llvm::PassBuilder builder;
        builder.registerModuleAnalyses(modules);
        builder.registerCGSCCAnalyses(calls);
        builder.registerFunctionAnalyses(functions);
        builder.registerLoopAnalyses(loops);
        builder.crossRegisterProxies(loops, functions, calls, modules);
        llvm::FunctionPassManager passes;
        passes.addPass(llvm::EarlyCSEPass());
        passes.addPass(llvm::InstCombinePass());
        for (llvm::Function& f : module)
            if (!f.isDeclaration()) passes.run(f, functions);
    }

    bool plain_;
    cpu::ScalarFeatures features_;
    std::unique_ptr<llvm::orc::LLJIT> jit_;
    int count_ = 0;
};

// ---- arrays of codes ----

inline std::vector<uint8_t> pack_containers(const Format& f, const std::vector<uint64_t>& codes) {
    const unsigned width = f.container_bytes();
    std::vector<uint8_t> out(codes.size() * width + 64);
    for (size_t i = 0; i < codes.size(); ++i) std::memcpy(out.data() + i * width, &codes[i], width);
    return out;
}

inline uint64_t container_at(const Format& f, const std::vector<uint8_t>& data, size_t i) {
    uint64_t code = 0;
    std::memcpy(&code, data.data() + i * f.container_bytes(), f.container_bytes());
    return code;
}
inline uint64_t container_of(const Format& f, uint64_t code) {
    const unsigned bits = f.container_bytes() * 8;
    return bits == 64 ? code : code & ((uint64_t{1} << bits) - 1);
}

/// All codes up to 16 bits; else the ends, powers of two and their neighbours in value and code, and random ones.
inline std::vector<uint64_t> codes_of(const Format& f, size_t random = 3000) {
    std::vector<uint64_t> codes;
    if (f.bits <= 16) {
        for (uint64_t c = 0; c < uint64_t{1} << f.bits; ++c) codes.push_back(extend_code(f, c));
        return codes;
    }
    const auto add = [&](uint64_t c) { codes.push_back(extend_code(f, c)); };
    for (unsigned k = 0; k < f.bits; ++k)
        for (int64_t d = -2; d <= 2; ++d)
            for (uint64_t sign : {uint64_t{0}, uint64_t{1} << (f.bits - 1), ~uint64_t{0}})
                add(((uint64_t{1} << k) + static_cast<uint64_t>(d)) ^ sign);
    std::mt19937_64 rng(f.bits * 977u + f.man_bits);
    if (f.is_float())
        for (int e = -30; e <= 70; ++e)
            for (double m : {1.0, 1.25, 1.5, 1.75, 1.9999999, 1.0000001, 1.00390625, 1.001953125})
                for (double s : {1.0, -1.0}) add(encode(f, s * std::ldexp(m, e))), add(encode(f, s * (std::floor(std::ldexp(m, e)) + 0.5)));
    for (size_t i = 0; i < random; ++i) add(rng() >> (i % 3 == 0 ? rng() % f.bits : 0));
    return codes;
}

/// Formats of all kinds besides the built-in ones.
inline std::vector<Format> custom_formats() {
    std::vector<Format> all;
    const auto number = [&](unsigned e, unsigned m, const std::function<void(Format&)>& change = {}) {
        Format f = float_format(e, m);
        if (change) change(f);
        EXPECT_EQ(format_problem(f), "");
        f.name = canonical_name(f);
        all.push_back(f);
    };
    number(3, 3);
    number(5, 6);
    number(0, 4);
    number(4, 0);
    number(8, 10);
    number(6, 9, [](Format& f) { f.subnormal = false; });
    number(5, 2, [](Format& f) { f.bias = -20; });
    number(4, 3, [](Format& f) { f.is_signed = false, f.bits = 7, f.negative_zero = false; });
    number(5, 3, [](Format& f) { f.has_inf = false, f.nan = NanCode::negative_zero, f.negative_zero = false; });
    number(5, 10, [](Format& f) { f.has_inf = false, f.nan = NanCode::none; });
    number(11, 20);
    number(9, 40);
    number(11, 51);
    const auto fixed = [&](unsigned whole, unsigned fraction, bool is_signed) {
        Format f;
        f.kind = FormatKind::fixed, f.is_signed = is_signed, f.bits = static_cast<uint8_t>(whole + fraction);
        f.int_bits = static_cast<uint8_t>(whole), f.frac_bits = static_cast<uint8_t>(fraction);
        f = canonical(f);
        f.name = canonical_name(f);
        all.push_back(f);
    };
    fixed(4, 4, true), fixed(0, 8, false), fixed(8, 8, true), fixed(12, 20, true), fixed(0, 32, false), fixed(5, 0, true), fixed(3, 4, false);
    const auto lns = [&](unsigned whole, unsigned fraction) {
        Format f;
        f.kind = FormatKind::lns, f.is_signed = true, f.bits = static_cast<uint8_t>(1 + whole + fraction);
        f.int_bits = static_cast<uint8_t>(whole), f.frac_bits = static_cast<uint8_t>(fraction);
        f = canonical(f);
        f.name = canonical_name(f);
        all.push_back(f);
    };
    lns(4, 3), lns(6, 5), lns(2, 0);
    const auto codebook = [&](std::vector<double> table) {
        Format f;
        f.kind = FormatKind::codebook, f.is_signed = false, f.bits = static_cast<uint8_t>(std::countr_zero(table.size()));
        f.table = std::move(table);
        f = canonical(f);
        f.name = canonical_name(f);
        all.push_back(f);
    };
    codebook({-1, 0, 1, 0});
    codebook({-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495,
              0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
              0.7229568362236023, 1.0});
    std::vector<double> big;
    for (int k = 0; k < 256; ++k) big.push_back(std::ldexp((k * 37 % 256) - 100.0, k % 5 - 2));
    codebook(big);
    for (unsigned bits : {1u, 3u, 4u, 7u, 12u, 17u, 31u, 33u, 53u, 63u})
        for (bool is_signed : {true, false}) all.push_back(int_format(bits, is_signed));
    return all;
}

inline std::vector<Format> all_formats() {
    std::vector<Format> all = builtin_formats();
    all.erase(all.begin());
    for (const Format& f : custom_formats()) all.push_back(f);
    return all;
}

}  // namespace tegula::testing
