// LLVM's time grows faster than a function: by its number of blocks in analyses of dominators, by that of instructions in others. So a kernel of many
// loop nests becomes several functions of limited size. Where one may begin and end is noted while the kernel is emitted, between instructions of
// tile IR; functions are made of such stretches afterwards, when it is known which values cross their ends.
#pragma once
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace tegula::cpu {

class LineTable;

class Parts {
public:
    explicit Parts(llvm::IRBuilder<>& b) : b_(b) {}

    struct Size {
        size_t blocks = 0, instructions = 0;
    };
    /// One block of tile IR while it is emitted. Lives from in front of its first instruction until behind its last one.
    class Sequence {
    public:
        explicit Sequence(Parts& parts);
        /// Behind an instruction. `ends`: a stretch may end here.
        void step(bool ends);

    private:
        /// A place in the kernel: behind `last`, or where `block` begins.
        struct Mark {
            llvm::BasicBlock* block;
            llvm::Instruction* last;
        };
        /// What is in front of the next stretch to end. Level 0 counts code, those above it the calls of the stretches below.
        struct Level {
            Mark start;
            Size size;
        };
        Mark here() const;
        Size made();
        void close(const Mark& start);

        Parts& parts_;
        std::vector<Level> levels_;
        Mark seen_;               ///< what is in front of it is counted
        llvm::BasicBlock* back_;  ///< the function's last block then
        Size closed_;             ///< of parts_, then
    };

    /// Makes functions of the stretches found. `leave`: the kernel's last block, from wherever it ends early.
    void outline(llvm::Function& kernel, llvm::BasicBlock& leave, LineTable* lines);

private:
    /// Control enters at `first` only, from one block, and leaves to `next` or to where the kernel ends.
    struct Part {
        llvm::BasicBlock *first, *next;
    };
    llvm::IRBuilder<>& b_;
    std::vector<Part> parts_;  ///< inner ones before those that they lie in
    Size closed_;              ///< what is in them, and what of it is in several counts once
};

}  // namespace tegula::cpu
