#include "pool.h"

#include <algorithm>

namespace tegula_tool::lsp {

namespace {

constexpr size_t kMostTasks = 1000;  ///< tasks, each of which may hold a module

}  // namespace

Progress::Progress(Transport& transport, const json& token, const std::string& title) : transport_(transport) {
    if (token.is_string() || token.is_number_integer()) token_ = token;
    tell({{"kind", "begin"}, {"title", title}, {"cancellable", true}});
}

void Progress::tell(json value) {
    if (!token_.is_null()) transport_.notify("$/progress", {{"token", token_}, {"value", std::move(value)}});
}

void Progress::report(const std::string& message, int percentage) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    json value = {{"kind", "report"}, {"message", message}};
    if (percentage >= 0) value["percentage"] = std::min(percentage, 100);
    tell(std::move(value));
}

void Progress::end() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(ended_, true)) tell({{"kind", "end"}});
}

void Job::reply(json result) {
    if (ended_.exchange(true) || id_.is_discarded()) return;
    if (progress_) progress_->end();
    transport_.reply(id_, std::move(result));
}

void Job::fail(int code, const std::string& why) {
    if (ended_.exchange(true)) return;
    if (progress_) progress_->end();
    if (id_.is_discarded())
        transport_.notify("window/logMessage", {{"type", 1}, {"message", why}});
    else
        transport_.fail(id_, code, why);
}

Pool::Pool(size_t workers) {
    for (size_t i = 0; i < workers; ++i) workers_.emplace_back([this] { work_all(); });
}

Pool::~Pool() { stop(); }

void Pool::stop() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        waiting_.clear();
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
}

bool Pool::add(Task task) {
    {
        const std::lock_guard lock(mutex_);
        if (ends_ || waiting_.size() >= kMostTasks) return false;
        waiting_.push_back(std::move(task));
    }
    wake_.notify_all();
    return true;
}

void Pool::end(const std::function<bool(const Task&)>& of, int code, const std::string& why) {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Task& task) {
        if (!of(task)) return false;
        if (task.job->id().is_discarded())
            task.job->reply(nullptr);
        else
            task.job->fail(code, why);
        return true;
    });
    for (const Task* task : running_) {
        if (!of(*task)) continue;
        if (task->job->id().is_discarded())
            task->job->reply(nullptr);
        else
            task->job->fail(code, why);
    }
}

void Pool::cancel(const json& id) {
    if (id.is_string() || id.is_number_integer())
        end([&](const Task& task) { return task.job->id() == id; }, request_cancelled, "the client has cancelled it");
}

void Pool::outdate() {
    end([](const Task& task) { return task.how.of_text; }, content_modified, "the text has changed");
}

bool Pool::may_begin() const {
    if (waiting_.empty() || std::ranges::any_of(running_, [](const Task* task) { return task->how.alone; })) return false;
    return running_.empty() || !waiting_.front().how.alone;
}

void Pool::work_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [&] { return ends_ || may_begin(); });
        if (ends_) return;
        Task task = std::move(waiting_.front());
        waiting_.pop_front();
        running_.push_back(&task);
        lock.unlock();
        work(task);
        lock.lock();
        std::erase(running_, &task);
        wake_.notify_all();
    }
}

void Pool::work(Task& task) {
    try {
        task.job->reply(task.work(*task.job));
    } catch (const Failure& failure) {
        task.job->fail(failure.code, failure.why);
    } catch (const std::exception& e) {
        task.job->fail(internal_error, e.what());
    }
    task.work = nullptr;  // it may hold a module
}

}  // namespace tegula_tool::lsp
