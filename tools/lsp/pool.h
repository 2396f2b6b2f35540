// Work that takes long, on threads of its own: a bounded number at a time, begun in the order of what came, ended where the client says so.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport.h"

namespace tegula_tool::lsp {

/// Why a request gets no result.
struct Failure {
    int code;
    std::string why;
};

/// Tells a client how a request goes on, where it has asked for that with a `workDoneToken`.
class Progress {
public:
    Progress(Transport& transport, const json& token, const std::string& title);
    /// percentage < 0: nobody knows.
    void report(const std::string& message, int percentage = -1);
    /// Before the answer.
    void end();

private:
    Transport& transport_;
    json token_;  ///< null: nobody has asked
    std::mutex mutex_;
    bool ended_ = false;
    void tell(json value);
};

/// A request while somebody works on it.
class Job {
public:
    Job(Transport& transport, json id, std::shared_ptr<Progress> progress)
        : transport_(transport), id_(std::move(id)), progress_(std::move(progress)) {}
    /// Nobody wants its result any more.
    bool ended() const { return ended_.load(std::memory_order_relaxed); }
    void report(const std::string& message, int percentage = -1) const {
        if (progress_) progress_->report(message, percentage);
    }
    /// The first answer counts.
    void reply(json result);
    void fail(int code, const std::string& why);
    const json& id() const { return id_; }

private:
    Transport& transport_;
    const json id_;  ///< discarded: nobody waits for an answer
    const std::shared_ptr<Progress> progress_;
    std::atomic<bool> ended_{false};
};

struct How {
    bool of_text = false;  ///< nobody wants it once a text has changed
    bool alone = false;    ///< times are measured: nothing else runs meanwhile
};

class Pool {
public:
    struct Task {
        std::shared_ptr<Job> job;
        std::function<json(Job&)> work;
        How how;
    };
    explicit Pool(size_t workers);
    ~Pool();
    Pool(const Pool&) = delete;
    /// False: too much waits already.
    bool add(Task task);
    /// Answers the request at once, and tells who works on it.
    void cancel(const json& id);
    /// The same for all work on texts.
    void outdate();
    /// Waits for what is in progress; the rest is left.
    void stop();

private:
    std::mutex mutex_;  ///< guards what follows
    std::condition_variable wake_;
    std::deque<Task> waiting_;
    std::vector<const Task*> running_;
    bool ends_ = false;
    std::vector<std::thread> workers_;

    void work_all();
    void work(Task& task);
    bool may_begin() const;
    void end(const std::function<bool(const Task&)>& of, int code, const std::string& why);
};

}  // namespace tegula_tool::lsp
