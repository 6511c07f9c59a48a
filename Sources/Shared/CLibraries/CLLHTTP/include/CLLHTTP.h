#pragma once

// By its full path: the -I of a C target does not reach the Swift targets that import it.
#include </usr/share/include/llhttp/llhttp.h>
// Swift's Glibc module has no epoll.
#include <sys/epoll.h>
#include <sys/eventfd.h>

// accept4 with a socket that neither blocks nor is inherited; Glibc's module hides it behind _GNU_SOURCE.
int daybook_accept(int listener);
