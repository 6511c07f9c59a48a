// The least that a durable HTTP door costs: epoll, llhttp, librdkafka's producer with the same properties as the
// service's, 202 after the delivery report. It checks no token, does not look into the body and writes it as it came.
//
//   ingest-floor BROKERS TOPIC      prints its port on 127.0.0.1 once the topic's metadata is there; SIGTERM ends it
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <llhttp.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { most_connections = 4096, buffer_size = 16 << 10, key_count = 512, key_length = 36, batch = 256 };

typedef struct {
    int fd; // -1: the slot is free
    uint32_t serial;
    int is_waiting;
    int is_complete;
    size_t filled;
    size_t parsed;
    const char *body;
    size_t body_length;
    llhttp_t parser;
    char *buffer; // lent while bytes of a request are held, as the service's blocks are
} connection;

static connection connections[most_connections];
static char *spare[most_connections];
static int spare_count;
static int poller;
static rd_kafka_t *client;
static rd_kafka_topic_t *topic;
static rd_kafka_queue_t *reports;
static llhttp_settings_t settings;
static char keys[key_count][key_length + 1];
static unsigned next_key;

static const char accepted[] = "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
                               "{\"accepted\":15}";
static const char unavailable[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

static void fail(const char *what) {
    fprintf(stderr, "ingest-floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int found_body(llhttp_t *parser, const char *at, size_t length) {
    connection *c = parser->data;
    if (c->body_length == 0) { c->body = at; }
    c->body_length += length;
    return 0;
}

static int finished_message(llhttp_t *parser) {
    ((connection *)parser->data)->is_complete = 1;
    return HPE_PAUSED;
}

static void give_back(connection *c) {
    if (c->buffer != NULL) { spare[spare_count++] = c->buffer; }
    c->buffer = NULL;
    c->filled = c->parsed = 0;
}

static void leave(connection *c) {
    give_back(c);
    close(c->fd);
    c->fd = -1;
    c->is_waiting = 0;
    c->serial++;
}

static void answer(connection *c, const char *bytes, size_t length) {
    c->is_waiting = 0;
    if (send(c->fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) { leave(c); }
}

static void produce(connection *c) {
    const char *key = keys[next_key++ % key_count];
    const uint64_t tag = (uint64_t)c->serial << 16 | (uint64_t)(c - connections);
    c->is_waiting = 1;
    if (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, (void *)c->body, c->body_length, key,
                         key_length, (void *)(uintptr_t)tag) != 0) {
        answer(c, unavailable, sizeof unavailable - 1);
    }
    if (c->fd >= 0) { give_back(c); }
}

// Reads until the socket is empty or a request is whole. One request at a time: nothing is pipelined here.
static void pump(connection *c) {
    while (!c->is_waiting) {
        if (c->buffer == NULL) { c->buffer = spare_count > 0 ? spare[--spare_count] : malloc(buffer_size); }
        if (c->buffer == NULL || c->filled == buffer_size) { return leave(c); }
        const ssize_t count = recv(c->fd, c->buffer + c->filled, buffer_size - c->filled, 0);
        if (count < 0 && errno == EAGAIN) {
            if (c->filled == 0) { give_back(c); }
            return;
        }
        if (count <= 0) { return leave(c); }
        const int is_drained = c->filled + (size_t)count < buffer_size;
        if (c->filled == 0) {
            llhttp_reset(&c->parser);
            c->is_complete = 0;
            c->body_length = 0;
        }
        c->filled += (size_t)count;
        const llhttp_errno_t error = llhttp_execute(&c->parser, c->buffer + c->parsed, c->filled - c->parsed);
        c->parsed = c->filled;
        if (error != HPE_OK && error != HPE_PAUSED) { return leave(c); }
        if (c->is_complete) { return produce(c); }
        if (is_drained) { return; }
    }
}

static void accept_all(int listener) {
    for (;;) {
        const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) { return; }
        int slot = 0;
        while (slot < most_connections && connections[slot].fd >= 0) { slot++; }
        if (slot == most_connections) {
            close(fd);
            continue;
        }
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        connection *c = &connections[slot];
        c->fd = fd;
        c->serial++;
        llhttp_init(&c->parser, HTTP_REQUEST, &settings);
        c->parser.data = c;
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u32 = (uint32_t)slot};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0) { leave(c); }
    }
}

static void drain_reports(int signal) {
    uint64_t count;
    if (read(signal, &count, sizeof count) < 0 && errno != EAGAIN) { fail("eventfd"); }
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(reports, 0)) != NULL) {
        const rd_kafka_message_t *message;
        while ((message = rd_kafka_event_message_next(event)) != NULL) {
            const uint64_t tag = (uint64_t)(uintptr_t)message->_private;
            connection *c = &connections[tag & 0xffff];
            if (c->fd < 0 || !c->is_waiting || c->serial != (uint32_t)(tag >> 16)) { continue; }
            if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
                answer(c, accepted, sizeof accepted - 1);
            } else {
                answer(c, unavailable, sizeof unavailable - 1);
            }
        }
        rd_kafka_event_destroy(event);
    }
}

static int connect_kafka(const char *brokers, const char *topic_name) {
    static const char *const properties[][2] = {
        {"acks", "all"}, {"enable.idempotence", "true"}, {"compression.codec", "lz4"}, {"linger.ms", "2"},
        {"partitioner", "murmur2_random"}, {"message.timeout.ms", "30000"}, {"socket.nagle.disable", "true"},
        {"enable.sparse.connections", "false"}, {"topic.metadata.refresh.interval.ms", "60000"},
    };
    char error[512];
    rd_kafka_conf_t *configuration = rd_kafka_conf_new();
    rd_kafka_conf_set(configuration, "bootstrap.servers", brokers, error, sizeof error);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        if (rd_kafka_conf_set(configuration, properties[i][0], properties[i][1], error, sizeof error) != 0) {
            fail(error);
        }
    }
    rd_kafka_conf_set_events(configuration, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    client = rd_kafka_new(RD_KAFKA_PRODUCER, configuration, error, sizeof error);
    if (client == NULL) { fail(error); }
    topic = rd_kafka_topic_new(client, topic_name, NULL);
    const struct rd_kafka_metadata *metadata;
    if (rd_kafka_metadata(client, 0, topic, &metadata, 20000) != 0) { fail("the broker does not tell of the topic"); }
    rd_kafka_metadata_destroy(metadata);
    reports = rd_kafka_queue_get_main(client);
    const int signal = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const uint64_t one = 1;
    rd_kafka_queue_io_event_enable(reports, signal, &one, sizeof one);
    return signal;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: ingest-floor BROKERS TOPIC\n");
        return 64;
    }
    for (int i = 0; i < most_connections; i++) { connections[i].fd = -1; }
    for (unsigned i = 0; i < key_count; i++) {
        snprintf(keys[i], sizeof keys[i], "%08x-0000-4000-8000-%012x", i * 2654435761u, i);
    }
    llhttp_settings_init(&settings);
    settings.on_body = found_body;
    settings.on_message_complete = finished_message;
    const int signal = connect_kafka(arguments[1], arguments[2]);

    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1024) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        fail("can't listen");
    }
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    event.data.u32 = UINT32_MAX - 1;
    epoll_ctl(poller, EPOLL_CTL_ADD, signal, &event);
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);

    struct epoll_event events[batch];
    for (;;) {
        const int ready = epoll_wait(poller, events, batch, -1);
        for (int i = 0; i < ready; i++) {
            const uint32_t token = events[i].data.u32;
            if (token == UINT32_MAX) {
                accept_all(listener);
            } else if (token == UINT32_MAX - 1) {
                drain_reports(signal);
            } else if (connections[token].fd >= 0) {
                pump(&connections[token]);
            }
        }
    }
}
