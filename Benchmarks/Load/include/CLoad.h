#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A closed loop of HTTP clients: each connection sends a request, waits for its answer, and sends the next one, at once
// or when its time has come.

typedef struct {
    const char *bytes; // head and body
    size_t length;
} load_request;

typedef struct {
    uint16_t port; // on 127.0.0.1
    int connections;
    double warmup_seconds; // not measured
    double seconds;
    double rate; // requests a second over all connections, timed from when they were due; 0: as many as there can be
    pid_t server; // whose processor time is measured
    const load_request *requests; // sent one after the other, over all connections
    size_t request_count;
} load_plan;

typedef struct {
    uint64_t accepted; // answers 202 inside the measured time
    uint64_t refused;  // other answers, and broken connections, at any time
    uint64_t unanswered; // after as long as any server may take
    double seconds;    // that were measured
    double p50;        // seconds; of requests that were sent inside the measured time, whenever they were answered
    double p99;
    double slowest;
    double server_cpu; // seconds, all threads, inside the measured time
    double own_cpu;
} load_result;

// 0, or an errno value when the load could not be made. Blocks; uses no thread of its own.
int load_run(const load_plan *plan, load_result *result);

// Seconds of processor time, all threads, of a process so far; negative when it can't be told.
double load_cpu_seconds(pid_t process);
