// Threads that run the programs of a grid. A pool belongs to one engine; its threads start with the first run that wants them and sleep between
// runs, after a look around for some microseconds: to be woken takes longer than many a kernel. A run never waits for a thread to become free:
// whoever comes late finds the work done, so runs from many threads at once, a forked child without threads, and an executor of the host that
// calls one worker after the other all get the same results.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tegula::cpu {

/// The host's threads: calls call(task, i) once for every i in [0, count), from any threads and in any order, and returns when all have returned.
/// One that leaves calls out, repeats them, returns early or throws costs speed, never a result: the calling thread does what is left and waits.
using HostExecutor = std::function<void(uint32_t count, void (*call)(void* task, uint32_t index), void* task)>;

struct PoolOptions {
    HostExecutor executor;     ///< empty: threads of the pool
    unsigned max_threads = 0;  ///< of the pool, the calling thread not counted; 0: as many as runs ask for
    bool pin = false;          ///< each thread of the pool stays on one core of those that the process may use
};

class Pool {
public:
    explicit Pool(PoolOptions options);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    /// Calls body(w) for w = 0 on this thread and for some others of 1 .. workers - 1 on threads of the pool; returns when all calls have. `body`
    /// takes its work from where all calls take it (Chunks), must not throw, and may be called for fewer workers than asked for.
    void run(unsigned workers, const std::function<void(unsigned worker)>& body);

private:
    struct Job;
    struct HostJob;
    void run_on_host(unsigned workers, const std::function<void(unsigned)>& body);
    void serve(unsigned index);
    /// The first job that still wants a worker; null: none.
    Job* open_job();
    /// False in a forked child, which has none of the threads.
    bool is_own_process() const;
    /// Starts threads until there are `wanted`; fewer where the system refuses.
    void grow(size_t wanted);

    const PoolOptions options_;
    int64_t process_ = 0;
    std::mutex mutex_;
    std::unique_ptr<std::condition_variable> wake_ = std::make_unique<std::condition_variable>();
    std::vector<Job*> jobs_;  ///< in progress, oldest first
    std::vector<std::thread> threads_;
    std::vector<std::unique_ptr<HostJob>> host_jobs_;  ///< as many as ran at once; kept for calls that come late
    std::vector<HostJob*> idle_host_jobs_;
    bool stop_ = false;
    std::atomic<unsigned> wanted_{0};  ///< workers that jobs still want, for those that look around
};

/// [0, total) dealt out to workers: each starts with an equal share in order, takes from its front, and when that is empty steals the back half of
/// somebody's rest.
class Chunks {
public:
    Chunks(uint64_t total, unsigned workers);
    /// The next part for this worker; false when nothing is left anywhere.
    bool take(unsigned worker, uint64_t& begin, uint64_t& end);
    /// From `program` on nothing is dealt out any more; a later call can only take away more.
    void end_at(uint64_t program);
    /// An estimate of how many are taken.
    uint64_t taken() const;

private:
    struct alignas(64) Share {
        std::atomic<uint64_t> range{0};  ///< first unit << 32 | end unit: one word is the whole state, so compare-and-swap cannot be fooled
    };
    bool take_front(Share& share, uint64_t& begin, uint64_t& end);
    bool steal(unsigned worker);

    const uint64_t total_;
    uint64_t unit_;                          ///< programs per unit
    std::atomic<uint64_t> end_{UINT64_MAX};  ///< units from here on are not dealt out
    const unsigned workers_;
    Share alone_;  ///< of one worker, without an allocation
    const std::unique_ptr<Share[]> several_;
    Share* const shares_;
};

/// Memory for workers, kept between runs. 64-byte aligned.
class ScratchStore {
public:
    class Buffer {
    public:
        Buffer() = default;
        Buffer(ScratchStore& store, size_t bytes);  ///< throws std::bad_alloc
        Buffer(Buffer&& other) noexcept;
        Buffer& operator=(Buffer&&) = delete;
        ~Buffer();
        uint8_t* data() const { return data_; }

    private:
        ScratchStore* store_ = nullptr;
        uint8_t* data_ = nullptr;
        size_t bytes_ = 0;
    };
    ScratchStore() = default;
    ~ScratchStore();
    ScratchStore(const ScratchStore&) = delete;

private:
    struct Free {
        uint8_t* data;
        size_t bytes;
    };
    std::mutex mutex_;
    std::vector<Free> free_;
    size_t kept_ = 0;
};

}  // namespace tegula::cpu
