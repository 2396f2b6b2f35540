// A console's evaluator in a process of its own (`--isolate`): native code that crashes ends that process, and another one takes over with the same
// variables, which the inputs so far make once more.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <map>

#include "core.h"

namespace tegula_tool::repl {

class Worker : public Evaluator {
public:
    /// `words`: of the command line of the process, which speaks the protocol of `--json`. Throws where it cannot be started.
    Worker(Session& tool, std::vector<std::string> words, bool colour);
    ~Worker() override;
    Worker(const Worker&) = delete;
    Json request(const Json& request, const Hear& hear) override;
    void interrupt() override;

private:
    struct Done {  ///< what has to be done once more in a new process
        std::string text;
        uint64_t number;  ///< of the input; 0: a command
        bool failed;      ///< an input that only counts
    };
    bool start();
    void stop(int signal);
    void send(const Json& request, uint64_t id);
    /// Handles input and output for at most that long; false: the process is gone.
    bool pump(int milliseconds);
    bool take_line(std::string& line);
    /// A new process with the variables of the one that ended; false: it begins anew. Tells what has happened.
    bool recover(const Hear& hear);
    void replay();
    std::string ending();
    /// An event of what is done once more, or of a request that is over; false: it is neither.
    bool is_old(const Json& event, const Hear& hear);
    void look_at_old(const Hear& hear);
    void remember(const Json& request, const Json& done);
    void forget();
    Json answer(const Json& request, const Hear& hear);

    tegula::Session syntax_;  ///< for what needs no variables, so that typing never waits for the process
    std::vector<std::string> words_;
    std::atomic<pid_t> process_{-1};
    std::atomic<int64_t> interrupted_at_{0};  ///< milliseconds; 0: the request in progress has not been
    int in_ = -1, out_ = -1;
    std::string outbox_, inbox_;
    size_t seen_ = 0;
    uint64_t id_ = 0, next_ = 1;
    std::vector<Done> journal_;
    std::map<uint64_t, size_t> replaying_;  ///< requests whose answers are not there yet, and their places in the journal
    std::string crashed_in_, signal_name_;
    const bool colour_;
};

}  // namespace tegula_tool::repl
