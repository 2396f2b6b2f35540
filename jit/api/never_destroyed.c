/* Objects of the shared library with static storage, LLVM's above all, live until the process is gone: a host may call exit() while threads
 * of its own are inside of a call, and they go on until the last handler has run. Linked with --wrap, so that all of the library register here. */
int __wrap___cxa_atexit(void (*destroy)(void*), void* object, void* library);

int __wrap___cxa_atexit(void (*destroy)(void*), void* object, void* library) {
    (void)destroy, (void)object, (void)library;
    return 0;
}
