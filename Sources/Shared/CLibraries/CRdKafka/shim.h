#pragma once

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>

// rd_kafka_producev is variadic, which Swift cannot call. The bytes are copied; the headers are taken over only when
// no error comes back. A NULL key or value is a record without one; an empty one has length 0 and any address.
static inline rd_kafka_resp_err_t daybook_kafka_produce(
    rd_kafka_t *client,
    rd_kafka_topic_t *topic,
    int32_t partition,
    const void *key,
    size_t key_length,
    const void *value,
    size_t value_length,
    rd_kafka_headers_t *headers,
    uint64_t tag)
{
    return rd_kafka_producev(
        client,
        RD_KAFKA_V_RKT(topic),
        RD_KAFKA_V_PARTITION(partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY((void *)key, key_length),
        RD_KAFKA_V_VALUE((void *)value, value_length),
        RD_KAFKA_V_HEADERS(headers),
        RD_KAFKA_V_OPAQUE((void *)(uintptr_t)tag),
        RD_KAFKA_V_END);
}

// Swift's Glibc module has no eventfd.
static inline int daybook_kafka_event_descriptor(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

// Swift's Glibc module has no mallopt. See KafkaMemory.
static inline void daybook_keep_freed_pages(int block_mib, int pages_mib)
{
    mallopt(M_MMAP_THRESHOLD, block_mib << 20);
    mallopt(M_TRIM_THRESHOLD, pages_mib << 20);
}
