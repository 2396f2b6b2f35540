// Pool, Chunks and ScratchStore (pool.h).
#include "jit/cpu/pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#ifdef __unix__
#include <unistd.h>
#endif
#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include "jit/cpu/tile_memory.h"

namespace tegula::cpu {

namespace {

constexpr size_t kMaxThreads = 1024;
constexpr uint64_t kMaxUnits = uint64_t{1} << 31;
constexpr uint64_t kMostAtOnce = 64;             ///< units taken in one go
constexpr size_t kMostKept = size_t{256} << 20;  ///< bytes of scratch memory between runs
constexpr auto kLookAround = std::chrono::microseconds(30);

constexpr uint64_t pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }
constexpr uint64_t begin_of(uint64_t range) { return range >> 32; }
constexpr uint64_t end_of(uint64_t range) { return range & UINT32_MAX; }

/// Until something happens, or it is time to sleep.
template <typename Happened>
void look_around(Happened happened) {
    const auto end = std::chrono::steady_clock::now() + kLookAround;
    while (!happened() && std::chrono::steady_clock::now() < end)
        for (int i = 0; i < 8; ++i) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("isb");
#endif
        }
}

/// Thread `index` of a pool goes to the core after that many others that the process may use.
void pin_to_core(unsigned index) {
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    const int count = CPU_COUNT(&allowed);
    if (count <= 1) return;
    int skip = static_cast<int>((index + 1) % static_cast<unsigned>(count));
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
#else
    static_cast<void>(index);
#endif
}

}  // namespace

// ---- Pool ----

struct Pool::Job {
    const std::function<void(unsigned)>& body;
    unsigned next = 1, workers;        ///< the next worker to start
    std::atomic<unsigned> running{0};  ///< on threads of the pool; changed under the mutex
    std::condition_variable done;
};

/// One run on threads of the host. Workers are numbered as they come, so that there is a first one whatever the host leaves out.
struct Pool::HostJob {
    std::mutex mutex;
    std::condition_variable done;
    const std::function<void(unsigned)>* body = nullptr;  ///< null: closed, calls come too late
    std::vector<bool> called;                             ///< by index
    unsigned next = 0, running = 0;

    void open(unsigned workers, const std::function<void(unsigned)>& work) {
        std::lock_guard lock(mutex);
        called.assign(workers, false);
        next = 0;
        body = &work;
    }
    void call(uint32_t index) {
        std::unique_lock lock(mutex);
        if (!body || index >= called.size() || called[index] || next >= called.size()) return;
        called[index] = true;
        work(lock);
    }
    /// Whoever still works is waited for; what nobody began is done here.
    void close() {
        std::unique_lock lock(mutex);
        if (body && next < called.size()) work(lock);
        done.wait(lock, [&] { return running == 0; });
        body = nullptr;
    }

private:
    void work(std::unique_lock<std::mutex>& lock) {
        const unsigned worker = next++;
        ++running;
        lock.unlock();
        (*body)(worker);
        lock.lock();
        if (--running == 0) done.notify_all();
    }
};

Pool::Pool(PoolOptions options) : options_(std::move(options)) {
#ifdef __unix__
    process_ = ::getpid();
#endif
}

Pool::~Pool() {
    if (!is_own_process()) {  // nobody is there to be woken or waited for, though the parent's sleepers are noted
        for (std::thread& t : threads_) t.detach();
        (void)wake_.release();
        return;
    }
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_->notify_all();
    for (std::thread& t : threads_) t.join();
}

bool Pool::is_own_process() const {
#ifdef __unix__
    return process_ == ::getpid();
#else
    return true;
#endif
}

Pool::Job* Pool::open_job() {
    for (Job* job : jobs_)
        if (job->next < job->workers) return job;
    return nullptr;
}

void Pool::serve(unsigned index) {
    if (options_.pin) pin_to_core(index);
    std::unique_lock lock(mutex_);
    for (;;) {
        Job* job = nullptr;
        wake_->wait(lock, [&] { return stop_ || (job = open_job()); });
        if (!job) return;
        const unsigned worker = job->next++;
        --wanted_;
        ++job->running;
        lock.unlock();
        job->body(worker);
        lock.lock();
        if (--job->running == 0) job->done.notify_all();
        lock.unlock();
        look_around([&] { return wanted_.load(std::memory_order_relaxed) > 0; });
        lock.lock();
    }
}

void Pool::grow(size_t wanted) {
    wanted = std::min(wanted, options_.max_threads ? options_.max_threads : kMaxThreads);
    while (threads_.size() < wanted) {
        try {
            threads_.emplace_back([this, index = static_cast<unsigned>(threads_.size())] { serve(index); });
        } catch (const std::system_error&) {
            return;
        }
    }
}

void Pool::run(unsigned workers, const std::function<void(unsigned)>& body) {
    if (workers <= 1 || !is_own_process()) return body(0);
    if (options_.executor) return run_on_host(workers, body);
    Job job{body, 1, workers, 0, {}};
    {
        std::lock_guard lock(mutex_);
        grow(workers - 1);
        jobs_.push_back(&job);
        wanted_ += workers - 1;
    }
    workers - 1 == 1 ? wake_->notify_one() : wake_->notify_all();
    body(0);
    std::unique_lock lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    wanted_ -= job.workers - job.next;
    lock.unlock();
    look_around([&] { return job.running == 0; });
    lock.lock();
    job.done.wait(lock, [&] { return job.running == 0; });
}

void Pool::run_on_host(unsigned workers, const std::function<void(unsigned)>& body) {
    HostJob* job = nullptr;
    {
        std::lock_guard lock(mutex_);
        if (idle_host_jobs_.empty()) {
            idle_host_jobs_.reserve(host_jobs_.size() + 1);  // giving it back needs no memory
            job = host_jobs_.emplace_back(std::make_unique<HostJob>()).get();
        } else {
            job = idle_host_jobs_.back();
            idle_host_jobs_.pop_back();
        }
    }
    std::exception_ptr thrown;
    try {
        job->open(workers, body);
        options_.executor(
            workers, [](void* task, uint32_t index) { static_cast<HostJob*>(task)->call(index); }, job);
    } catch (...) {
        thrown = std::current_exception();
    }
    job->close();
    {
        std::lock_guard lock(mutex_);
        idle_host_jobs_.push_back(job);
    }
    if (thrown) std::rethrow_exception(thrown);
}

// ---- Chunks ----

Chunks::Chunks(uint64_t total, unsigned workers)
    : total_(total),
      unit_(total / kMaxUnits + 1),
      workers_(workers),
      several_(workers > 1 ? new Share[workers] : nullptr),
      shares_(several_ ? several_.get() : &alone_) {
    const uint64_t units = (total + unit_ - 1) / unit_;
    for (unsigned w = 0; w < workers; ++w) shares_[w].range = pack(units * w / workers, units * (w + 1) / workers);
}

bool Chunks::take_front(Share& share, uint64_t& begin, uint64_t& end) {
    uint64_t range = share.range.load(std::memory_order_relaxed);
    for (;;) {
        const uint64_t from = begin_of(range), to = std::min(end_of(range), end_.load(std::memory_order_relaxed));
        if (from >= to) return false;
        const uint64_t n = std::clamp<uint64_t>((to - from) / 8, 1, kMostAtOnce);
        if (!share.range.compare_exchange_weak(range, pack(from + n, to), std::memory_order_relaxed)) continue;
        begin = from * unit_;
        end = std::min(total_, (from + n) * unit_);
        return true;
    }
}

bool Chunks::steal(unsigned worker) {
    for (unsigned k = 1; k < workers_; ++k) {
        Share& victim = shares_[(worker + k) % workers_];
        uint64_t range = victim.range.load(std::memory_order_relaxed);
        for (;;) {
            const uint64_t from = begin_of(range), to = std::min(end_of(range), end_.load(std::memory_order_relaxed));
            if (from >= to) break;
            const uint64_t middle = from + (to - from) / 2;
            if (!victim.range.compare_exchange_weak(range, pack(from, middle), std::memory_order_relaxed)) continue;
            shares_[worker].range.store(pack(middle, to), std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

bool Chunks::take(unsigned worker, uint64_t& begin, uint64_t& end) {
    do
        if (take_front(shares_[worker], begin, end)) return true;
    while (steal(worker));
    return false;
}

void Chunks::end_at(uint64_t program) {
    const uint64_t end = program / unit_ + (program % unit_ != 0);
    uint64_t now = end_.load(std::memory_order_relaxed);
    while (end < now && !end_.compare_exchange_weak(now, end, std::memory_order_relaxed)) {
    }
}

uint64_t Chunks::taken() const {
    uint64_t left = 0;
    for (unsigned w = 0; w < workers_; ++w) {
        const uint64_t range = shares_[w].range.load(std::memory_order_relaxed);
        left += end_of(range) - std::min(begin_of(range), end_of(range));
    }
    return total_ - std::min(total_, left * unit_);
}

// ---- ScratchStore ----

ScratchStore::~ScratchStore() {
    for (const Free& f : free_) free_tiles(f.data);
}

ScratchStore::Buffer::Buffer(ScratchStore& store, size_t bytes) : store_(&store), bytes_(bytes) {
    if (bytes == 0) return;
    {
        std::lock_guard lock(store.mutex_);
        auto best = store.free_.end();
        for (auto f = store.free_.begin(); f != store.free_.end(); ++f)
            if (f->bytes >= bytes && f->bytes / 4 <= bytes && (best == store.free_.end() || f->bytes < best->bytes)) best = f;
        if (best != store.free_.end()) {
            data_ = best->data;
            bytes_ = best->bytes;
            store.kept_ -= bytes_;
            store.free_.erase(best);
            return;
        }
    }
    data_ = static_cast<uint8_t*>(allocate_tiles(bytes));
}

ScratchStore::Buffer::Buffer(Buffer&& other) noexcept : store_(other.store_), data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }

ScratchStore::Buffer::~Buffer() {
    if (!data_) return;
    std::lock_guard lock(store_->mutex_);
    std::vector<Free>& free = store_->free_;
    try {
        if (bytes_ <= kMostKept) free.push_back({data_, bytes_}), store_->kept_ += bytes_, data_ = nullptr;
    } catch (const std::bad_alloc&) {
    }
    if (data_) free_tiles(data_);
    while (store_->kept_ > kMostKept) {  // the oldest goes
        store_->kept_ -= free.front().bytes;
        free_tiles(free.front().data);
        free.erase(free.begin());
    }
}

}  // namespace tegula::cpu
