#define _GNU_SOURCE
#include "CMockListener.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static _Thread_local uint16_t wished_port;
static _Thread_local int wish_used;
static atomic_int no_delay_callers;
static _Atomic uint64_t no_delay_connections;

typedef int (*bind_function)(int, const struct sockaddr *, socklen_t);
typedef int (*accept_function)(int, struct sockaddr *, socklen_t *);
typedef int (*accept4_function)(int, struct sockaddr *, socklen_t *, int);

static void *original(_Atomic(void *) *cache, const char *name)
{
    void *found = atomic_load_explicit(cache, memory_order_acquire);
    if (!found) {
        found = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(cache, found, memory_order_release);
    }
    return found;
}

static int accepted(int connection)
{
    if (connection >= 0 && atomic_load_explicit(&no_delay_callers, memory_order_relaxed) > 0) {
        int saved = errno, on = 1;
        // Fails on other kinds of socket, which is right.
        if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0)
            atomic_fetch_add_explicit(&no_delay_connections, 1, memory_order_relaxed);
        errno = saved;
    }
    return connection;
}

__attribute__((visibility("default"))) int bind(int socket, const struct sockaddr *address, socklen_t length)
{
    static _Atomic(void *) cache;
    bind_function next = (bind_function)original(&cache, "bind");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    if (wished_port && address && address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in wished;
        memcpy(&wished, address, sizeof wished);
        if (wished.sin_port == 0 && wished.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) {
            wished.sin_port = htons(wished_port);
            wished_port = 0;
            wish_used = 1;
            return next(socket, (const struct sockaddr *)&wished, sizeof wished);
        }
    }
    return next(socket, address, length);
}

__attribute__((visibility("default"))) int accept(int socket, struct sockaddr *address, socklen_t *length)
{
    static _Atomic(void *) cache;
    accept_function next = (accept_function)original(&cache, "accept");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    return accepted(next(socket, address, length));
}

__attribute__((visibility("default"))) int accept4(int socket, struct sockaddr *address, socklen_t *length, int flags)
{
    static _Atomic(void *) cache;
    accept4_function next = (accept4_function)original(&cache, "accept4");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    return accepted(next(socket, address, length, flags));
}

void daybook_mock_listener_next_port(uint16_t port)
{
    wished_port = port;
    wish_used = 0;
}

int daybook_mock_listener_port_was_used(void) { return wish_used; }

void daybook_mock_listener_no_delay(int on) { atomic_fetch_add(&no_delay_callers, on ? 1 : -1); }

uint64_t daybook_mock_listener_no_delay_count(void)
{
    return atomic_load_explicit(&no_delay_connections, memory_order_relaxed);
}

int daybook_mock_listener_try_port(uint16_t port)
{
    int on = 1, result = 0;
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return errno;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    // With SO_REUSEADDR as librdkafka sets it; `listen` finds the listeners that `bind` alone would share with.
    if (setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
        || bind(probe, (const struct sockaddr *)&address, sizeof address) != 0 || listen(probe, 1) != 0)
        result = errno;
    close(probe);
    return result;
}
