#pragma once

#include <nghttp2/nghttp2.h>
// Swift's Glibc module has no epoll.
#include <sys/epoll.h>
#include <sys/eventfd.h>
