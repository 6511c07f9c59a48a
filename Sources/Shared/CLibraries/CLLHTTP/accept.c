#define _GNU_SOURCE
#include "CLLHTTP.h"

#include <sys/socket.h>

int daybook_accept(int listener) { return accept4(listener, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC); }
