#define _GNU_SOURCE
#include "CLoad.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { batch = 256, answer_size = 4096, finest = 64, buckets = 64 * finest };

// Seconds; longer than a request may take at any server here.
enum { answer_patience = 15 };

typedef struct {
    int fd;
    int is_waiting;
    uint64_t sent_at;
    size_t filled;
    char answer[answer_size];
} client;

typedef struct {
    const load_plan *plan;
    client *clients;
    int *idle; // with a rate: clients whose next request is not due yet
    int idle_count;
    uint64_t due_at; // the next request, with a rate
    int poller;
    size_t next_request;
    int waiting;
    int is_measured;
    uint64_t measured_from;
    uint64_t slowest;
    uint64_t counts[buckets];
    load_result *result;
} load;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

double load_cpu_seconds(pid_t process) {
    // The kernel's exact count; utime and stime in /proc are the same sum in hundredths of a second.
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) { return -1; }
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Buckets that grow by a 64th of their power of two, so that a quantile is off by 1.6 percent at most.
static size_t bucket(uint64_t value) {
    if (value < finest) { return (size_t)value; }
    const int power = 63 - __builtin_clzll(value);
    return (size_t)(power - 5) * finest + (size_t)((value >> (power - 6)) & (finest - 1));
}

static uint64_t bucket_top(size_t index) {
    if (index < finest) { return index; }
    const int power = (int)(index / finest) + 5;
    return (((uint64_t)finest + index % finest + 1) << (power - 6)) - 1;
}

static double quantile(const load *l, uint64_t total, double part) {
    uint64_t rank = (uint64_t)((double)total * part);
    for (size_t i = 0; i < buckets; i++) {
        if (l->counts[i] > rank) { return (double)bucket_top(i) / 1e9; }
        rank -= l->counts[i];
    }
    return 0;
}

static void drop(load *l, client *c) {
    l->result->refused++;
    if (c->is_waiting) { l->waiting--; }
    c->is_waiting = 0;
    close(c->fd);
    c->fd = -1;
}

static void send_next(load *l, client *c, uint64_t due_at) {
    const load_request *request = &l->plan->requests[l->next_request++ % l->plan->request_count];
    size_t sent = 0;
    c->filled = 0;
    c->sent_at = due_at;
    c->is_waiting = 1;
    l->waiting++;
    while (sent < request->length) {
        const ssize_t count = send(c->fd, request->bytes + sent, request->length - sent, MSG_NOSIGNAL);
        if (count >= 0) {
            sent += (size_t)count;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {.fd = c->fd, .events = POLLOUT};
            poll(&wait, 1, 1000);
        } else if (errno != EINTR) {
            drop(l, c);
            return;
        }
    }
}

// Bytes of the whole answer; 0 while its head is not there, -1 when it can't be read.
static long answer_length(const client *c) {
    const char *end = memmem(c->answer, c->filled, "\r\n\r\n", 4);
    if (end == NULL) { return c->filled == answer_size ? -1 : 0; }
    for (const char *line = c->answer; line < end;) {
        line = memchr(line, '\n', (size_t)(end - line));
        if (line == NULL) { break; }
        line++;
        if (strncasecmp(line, "content-length:", 15) == 0) {
            const long length = strtol(line + 15, NULL, 10);
            const long whole = (end + 4 - c->answer) + length;
            return length >= 0 && whole <= answer_size ? whole : -1;
        }
    }
    return -1;
}

// Of a request that was sent inside the measured time, also where its answer came later.
static void note_time(load *l, const client *c) {
    if (l->measured_from == 0 || c->sent_at < l->measured_from) { return; }
    const uint64_t taken = now() - c->sent_at;
    l->counts[bucket(taken)]++;
    if (taken > l->slowest) { l->slowest = taken; }
}

static void receive(load *l, client *c, int goes_on) {
    const ssize_t count = recv(c->fd, c->answer + c->filled, answer_size - c->filled, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) { return; }
    if (count <= 0 || !c->is_waiting) { return drop(l, c); }
    c->filled += (size_t)count;
    const long length = answer_length(c);
    if (length == 0 || (length > 0 && (size_t)length > c->filled)) { return; }
    if (length < 0) { return drop(l, c); }
    c->is_waiting = 0;
    l->waiting--;
    if (memcmp(c->answer, "HTTP/1.1 202 ", 13) != 0) {
        l->result->refused++;
    } else {
        if (l->is_measured) { l->result->accepted++; }
        note_time(l, c);
    }
    if (!goes_on) { return; }
    if (l->plan->rate > 0) {
        l->idle[l->idle_count++] = (int)(c - l->clients);
    } else {
        send_next(l, c, now());
    }
}

// What is due is sent, by whoever is idle; what nobody can send now has waited when its turn comes.
static void send_due(load *l, uint64_t moment) {
    const uint64_t interval = (uint64_t)(1e9 / l->plan->rate);
    while (l->idle_count > 0 && l->due_at <= moment) {
        client *c = &l->clients[l->idle[--l->idle_count]];
        if (c->fd < 0) { continue; }
        send_next(l, c, l->due_at);
        l->due_at += interval;
    }
}

static void serve_until(load *l, uint64_t end, int goes_on) {
    struct epoll_event events[batch];
    for (;;) {
        const uint64_t moment = now();
        if (moment >= end || l->waiting + (goes_on ? l->idle_count : 0) == 0) { return; }
        int patience = (int)((end - moment) / 1000000) + 1;
        if (goes_on && l->plan->rate > 0) {
            send_due(l, moment);
            if (l->idle_count > 0) { patience = 1; }
        }
        const int ready = epoll_wait(l->poller, events, batch, patience);
        for (int i = 0; i < ready; i++) {
            client *c = &l->clients[events[i].data.u32];
            if (c->fd >= 0) { receive(l, c, goes_on); }
        }
    }
}

static int connect_all(load *l) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(l->plan->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < l->plan->connections; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) { return errno; }
        l->clients[i].fd = fd;
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) { return errno; }
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (epoll_ctl(l->poller, EPOLL_CTL_ADD, fd, &event) != 0) { return errno; }
    }
    return 0;
}

static uint64_t nanoseconds(double seconds) { return (uint64_t)(seconds * 1e9); }

int load_run(const load_plan *plan, load_result *result) {
    memset(result, 0, sizeof *result);
    load *l = calloc(1, sizeof *l);
    client *clients = calloc((size_t)plan->connections, sizeof *clients);
    int *idle = calloc((size_t)plan->connections, sizeof *idle);
    if (l == NULL || clients == NULL || idle == NULL) { return ENOMEM; }
    for (int i = 0; i < plan->connections; i++) { clients[i].fd = -1; }
    *l = (load){.plan = plan, .clients = clients, .idle = idle,
                .poller = epoll_create1(EPOLL_CLOEXEC), .result = result};
    const int failure = connect_all(l);
    if (failure == 0) {
        l->due_at = now();
        for (int i = 0; i < plan->connections; i++) {
            if (plan->rate > 0) {
                idle[l->idle_count++] = i;
            } else {
                send_next(l, &clients[i], l->due_at);
            }
        }
        serve_until(l, now() + nanoseconds(plan->warmup_seconds), 1);
        const double server = load_cpu_seconds(plan->server), own = load_cpu_seconds(getpid());
        l->measured_from = now();
        l->is_measured = 1;
        serve_until(l, l->measured_from + nanoseconds(plan->seconds), 1);
        result->seconds = (double)(now() - l->measured_from) / 1e9;
        result->server_cpu = load_cpu_seconds(plan->server) - server;
        result->own_cpu = load_cpu_seconds(getpid()) - own;
        l->is_measured = 0;
        // What is on its way is waited for: a request that hangs counts, and the next run finds a quiet server.
        const uint64_t sent_until = now();
        serve_until(l, sent_until + nanoseconds(answer_patience), 0);
        for (int i = 0; i < plan->connections; i++) {
            if (clients[i].fd >= 0 && clients[i].is_waiting) {
                result->unanswered++;
                note_time(l, &clients[i]);
            }
        }
        // What was due and could not be sent has waited, too.
        if (plan->rate > 0 && l->due_at < sent_until && sent_until - l->due_at > l->slowest) {
            l->slowest = sent_until - l->due_at;
        }
        uint64_t timed = 0;
        for (size_t i = 0; i < buckets; i++) { timed += l->counts[i]; }
        result->p50 = quantile(l, timed, 0.5);
        result->p99 = quantile(l, timed, 0.99);
        result->slowest = (double)l->slowest / 1e9;
    }
    for (int i = 0; i < plan->connections; i++) {
        if (clients[i].fd >= 0) { close(clients[i].fd); }
    }
    close(l->poller);
    free(clients);
    free(idle);
    free(l);
    return failure;
}
