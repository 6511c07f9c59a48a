#pragma once

#include <stdint.h>

// librdkafka's mock cluster picks its own ports and leaves Nagle's algorithm on. This target interposes `bind`,
// `accept` and `accept4`: an executable's own symbols come before libc's, also for calls from librdkafka.so.
// Both changes are off until asked for.

/// The next bind of the calling thread to 127.0.0.1 port 0 gets `port` instead (once; 0 takes the wish back).
void daybook_mock_listener_next_port(uint16_t port);

/// 1 when the last wish of this thread was used by a bind, else 0: then the interposition does not work here.
int daybook_mock_listener_port_was_used(void);

/// While at least one caller has this on, every accepted TCP connection of the process gets TCP_NODELAY.
void daybook_mock_listener_no_delay(int on);

/// How many accepted connections got TCP_NODELAY so far.
uint64_t daybook_mock_listener_no_delay_count(void);

/// 0 when `port` of 127.0.0.1 can be bound now, else the errno.
int daybook_mock_listener_try_port(uint16_t port);
