// Preloaded for the thread sanitizer: calls that order threads and that it does not know.
//
// Swift's Mutex is taken inside the Swift library when it is contended, where the sanitizer does not look.
//
// Debian's librdkafka makes its threads and locks with C11's calls, which the
// sanitizer does not know: it would take everything that librdkafka hands from thread to thread for a race. These are
// the same calls over pthreads, which it knows. glibc's types have room: mtx_t and cnd_t are as large as pthread's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define lock_slow_name "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define unlock_slow_name "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define swift_self __attribute__((swift_context)) void *mutex

extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

typedef __attribute__((swiftcall)) void lock_slow(uint32_t thread, swift_self);
typedef __attribute__((swiftcall)) void unlock_slow(swift_self);

// Synchronization._MutexHandle._lockSlow(UInt32)
__attribute__((swiftcall)) void mutex_lock_slow(uint32_t thread, swift_self) __asm__(lock_slow_name);
__attribute__((swiftcall)) void mutex_lock_slow(uint32_t thread, swift_self) {
    static lock_slow *next;
    if (!next) next = (lock_slow *)dlsym(RTLD_NEXT, lock_slow_name);
    next(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

// Synchronization._MutexHandle._unlockSlow(): somebody waits, and gets it from the kernel.
__attribute__((swiftcall)) void mutex_unlock_slow(swift_self) __asm__(unlock_slow_name);
__attribute__((swiftcall)) void mutex_unlock_slow(swift_self) {
    static unlock_slow *next;
    if (!next) next = (unlock_slow *)dlsym(RTLD_NEXT, unlock_slow_name);
    if (__tsan_release) __tsan_release(mutex);
    next(mutex);
}

struct start {
    thrd_start_t function;
    void *argument;
};

static void *run(void *raw) {
    struct start start = *(struct start *)raw;
    free(raw);
    return (void *)(intptr_t)start.function(start.argument);
}

static int outcome(int code) { return code == 0 ? thrd_success : code == 110 ? thrd_timedout : code == 16 ? thrd_busy : thrd_error; }

int thrd_create(thrd_t *thread, thrd_start_t function, void *argument) {
    struct start *start = malloc(sizeof *start);
    if (!start) return thrd_nomem;
    *start = (struct start){function, argument};
    return outcome(pthread_create((pthread_t *)thread, NULL, run, start));
}
int thrd_join(thrd_t thread, int *result) {
    void *value = NULL;
    int code = pthread_join((pthread_t)thread, &value);
    if (result) *result = (int)(intptr_t)value;
    return outcome(code);
}
int thrd_detach(thrd_t thread) { return outcome(pthread_detach((pthread_t)thread)); }
int mtx_init(mtx_t *mutex, int type) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (type & mtx_recursive) pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    int code = pthread_mutex_init((pthread_mutex_t *)mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return outcome(code);
}
int mtx_lock(mtx_t *mutex) { return outcome(pthread_mutex_lock((pthread_mutex_t *)mutex)); }
int mtx_trylock(mtx_t *mutex) { return outcome(pthread_mutex_trylock((pthread_mutex_t *)mutex)); }
int mtx_timedlock(mtx_t *mutex, const struct timespec *until) {
    return outcome(pthread_mutex_timedlock((pthread_mutex_t *)mutex, until));
}
int mtx_unlock(mtx_t *mutex) { return outcome(pthread_mutex_unlock((pthread_mutex_t *)mutex)); }
void mtx_destroy(mtx_t *mutex) { pthread_mutex_destroy((pthread_mutex_t *)mutex); }
int cnd_init(cnd_t *condition) { return outcome(pthread_cond_init((pthread_cond_t *)condition, NULL)); }
int cnd_signal(cnd_t *condition) { return outcome(pthread_cond_signal((pthread_cond_t *)condition)); }
int cnd_broadcast(cnd_t *condition) { return outcome(pthread_cond_broadcast((pthread_cond_t *)condition)); }
int cnd_wait(cnd_t *condition, mtx_t *mutex) {
    return outcome(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    return outcome(pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until));
}
void cnd_destroy(cnd_t *condition) { pthread_cond_destroy((pthread_cond_t *)condition); }
