// librdkafka 2.0.2 cuts the time that it may wait to whole milliseconds: a producer that lingers for 2 ms polls for 1 ms
// and spends the rest in poll(…, 0), again and again, which takes a third of a busy producer's processor time and, on
// few cores, the time of those who would answer. This `poll` comes before libc's for the whole process and makes the
// second of such calls in a row wait a little. Events end the wait as ever, so that nothing but the linger is late.
#define _GNU_SOURCE
#include "CPatientPoll.h"

#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { patience_nanoseconds = 200000 };

// 1: a broker thread; -1: another; 0: not known yet.
static _Thread_local int kind;
static _Thread_local int found_nothing;

static int is_broker_thread(void)
{
    if (kind == 0) {
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        kind = strncmp(name, "rdk:broker", 10) == 0 ? 1 : -1;
    }
    return kind > 0;
}

int poll(struct pollfd *descriptors, nfds_t count, int milliseconds)
{
    if (milliseconds < 0) {
        found_nothing = 0;
        return ppoll(descriptors, count, NULL, NULL);
    }
    struct timespec limit = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
    if (milliseconds == 0 && found_nothing && is_broker_thread()) { limit.tv_nsec = patience_nanoseconds; }
    const int ready = ppoll(descriptors, count, &limit, NULL);
    found_nothing = milliseconds == 0 && ready == 0;
    return ready;
}
