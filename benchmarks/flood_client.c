/* A load client for flood.py: MQTT 5 subscribers that acknowledge at once, or publishers with a window.
 *
 *   flood_client sub  PORT TOPIC QOS CLIENTS EXPECTED IDLE_S NAME
 *   flood_client pub  PORT TOPIC QOS COUNT WINDOW BYTES NAME
 *   flood_client cross PORT TOPIC_OUT TOPIC_IN QOS COUNT WINDOW BYTES IDLE_S NAME
 *
 * A payload is a JSON object that begins with the number of its publication, {"n":0000000000,...}, counted per
 * publisher. `sub` checks that each client gets rising numbers per topic. `cross` is one connection that both
 * publishes and subscribes. All traffic goes to 127.0.0.1. When all is done, or nothing has moved for IDLE_S
 * seconds, one JSON object goes to standard output.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_BYTES (1 << 20)
#define TOPICS_MAX 64
#define BAD(...) (fprintf(stderr, __VA_ARGS__), exit(1))

struct topic { char name[256]; long last; };

struct client {
    int fd, open, ready, subscribed;
    unsigned char *in, *out;
    size_t in_used, out_used, out_size;
    long received, repeated, disordered;
    int reason;                        /* of a DISCONNECT from the broker, -1 if there was none */
    long sent, acked;
    struct topic topics[TOPICS_MAX];
    int topics_used;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void put(struct client *c, const void *data, size_t size) {
    if (c->out_used + size > c->out_size) {
        while (c->out_used + size > c->out_size) c->out_size = c->out_size ? 2 * c->out_size : 4096;
        if (!(c->out = realloc(c->out, c->out_size))) BAD("out of memory\n");
    }
    memcpy(c->out + c->out_used, data, size);
    c->out_used += size;
}

static void flush_out(struct client *c) {
    size_t at = 0;
    while (c->open && at < c->out_used) {
        ssize_t n = write(c->fd, c->out + at, c->out_used - at);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) c->open = 0;
            break;
        }
        at += (size_t)n;
    }
    memmove(c->out, c->out + at, c->out_used - at);
    c->out_used -= at;
}

static size_t put_length(unsigned char *at, size_t value) {
    size_t used = 0;
    do {
        at[used] = value % 128;
        value /= 128;
        if (value) at[used] |= 128;
        used++;
    } while (value);
    return used;
}

static void put_packet(struct client *c, unsigned char first, const unsigned char *body, size_t size) {
    unsigned char head[5] = {first};
    put(c, head, 1 + put_length(head + 1, size));
    put(c, body, size);
}

static void open_client(struct client *c, int port, const char *id) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address)) BAD("connect: %s\n", strerror(errno));
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->in = malloc(IN_BYTES);
    c->open = 1;
    c->reason = -1;
    unsigned char body[512] = {0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 0}; /* clean start, no keep-alive */
    size_t length = strlen(id);
    body[11] = (unsigned char)(length >> 8);
    body[12] = (unsigned char)length;
    memcpy(body + 13, id, length);
    put_packet(c, 0x10, body, 13 + length);
    flush_out(c);
}

static void subscribe(struct client *c, const char *filter, int qos) {
    unsigned char body[512] = {0, 1, 0};
    size_t length = strlen(filter);
    body[3] = (unsigned char)(length >> 8);
    body[4] = (unsigned char)length;
    memcpy(body + 5, filter, length);
    body[5 + length] = (unsigned char)qos;
    put_packet(c, 0x82, body, 6 + length);
}

static void publish(struct client *c, const char *topic, int qos, long number, size_t bytes) {
    unsigned char *body = malloc(bytes + 600);
    size_t length = strlen(topic), at = 0;
    body[at++] = (unsigned char)(length >> 8);
    body[at++] = (unsigned char)length;
    memcpy(body + at, topic, length);
    at += length;
    if (qos) {
        unsigned id = (unsigned)(number % 65535) + 1;
        body[at++] = (unsigned char)(id >> 8);
        body[at++] = (unsigned char)id;
    }
    body[at++] = 0;
    size_t start = at;
    at += (size_t)sprintf((char *)body + at, "{\"n\":%010ld,\"text\":\"", number);
    while (at - start + 2 < bytes) body[at++] = 'x';
    body[at++] = '"';
    body[at++] = '}';
    put_packet(c, (unsigned char)(0x30 | qos << 1), body, at);
    free(body);
}

static void count(struct client *c, const char *topic, size_t length, long number) {
    c->received++;
    struct topic *found = NULL;
    for (int i = 0; i < c->topics_used && !found; i++)
        if (strlen(c->topics[i].name) == length && !memcmp(c->topics[i].name, topic, length)) found = &c->topics[i];
    if (!found && c->topics_used < TOPICS_MAX && length < sizeof c->topics[0].name) {
        found = &c->topics[c->topics_used++];
        memcpy(found->name, topic, length);
        found->name[length] = 0;
        found->last = -1;
    }
    if (!found) return;
    if (number == found->last) c->repeated++;
    else if (number < found->last) c->disordered++;
    else found->last = number;
}

static void on_packet(struct client *c, unsigned char *head, unsigned char *body, size_t size) {
    int type = *head >> 4, qos = *head >> 1 & 3;
    if (type == 2) {
        if (body[1]) BAD("CONNACK with reason 0x%02x\n", body[1]);
        c->ready = 1;
    } else if (type == 9) {
        if (body[size - 1] >= 0x80) BAD("SUBACK with reason 0x%02x\n", body[size - 1]);
        c->subscribed = 1;
    } else if (type == 3) {
        size_t length = (size_t)body[0] << 8 | body[1], at = 2 + length + (qos ? 2 : 0);
        size_t properties = 0, shift = 0;
        do properties |= (size_t)(body[at] & 127) << shift, shift += 7;
        while (body[at++] & 128);
        at += properties;
        count(c, (char *)body + 2, length, at + 5 < size ? strtol((char *)body + at + 5, NULL, 10) : -1);
        if (qos == 1) {
            unsigned char ack[4] = {0x40, 2, body[2 + length], body[3 + length]};
            put(c, ack, 4);
        }
    } else if (type == 4) {
        if (size > 2 && body[2] >= 0x80) BAD("PUBACK with reason 0x%02x\n", body[2]);
        c->acked++;
    } else if (type == 14) {
        c->reason = size ? body[0] : 0;
    }
}

static int read_client(struct client *c) {
    int packets = 0;
    for (;;) {
        ssize_t n = read(c->fd, c->in + c->in_used, IN_BYTES - c->in_used);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        if (n <= 0) {
            c->open = 0;
            break;
        }
        c->in_used += (size_t)n;
        size_t at = 0;
        for (;;) {
            size_t length = 0, shift = 0, head = at + 1;
            int whole = 0;
            while (head < c->in_used && shift < 28) {
                length |= (size_t)(c->in[head] & 127) << shift;
                shift += 7;
                if (!(c->in[head++] & 128)) { whole = 1; break; }
            }
            if (!whole || head + length > c->in_used) break;
            on_packet(c, c->in + at, c->in + head, length);
            packets++;
            at = head + length;
        }
        memmove(c->in, c->in + at, c->in_used - at);
        c->in_used -= at;
        if ((size_t)n < IN_BYTES / 2) break;
    }
    return packets;
}

int main(int argc, char **argv) {
    if (argc < 2) BAD("usage: see the top of flood_client.c\n");
    int cross = !strcmp(argv[1], "cross"), pub = !strcmp(argv[1], "pub");
    if (argc != (cross ? 11 : 9)) BAD("%s takes other arguments: see the top of flood_client.c\n", argv[1]);
    int port = atoi(argv[2]), clients = 1, qos;
    const char *out = argv[3], *filter = argv[3], *name = argv[argc - 1];
    long total = 0, window = 0, expected = 0;
    size_t bytes = 0;
    double idle_s = 60;
    if (cross) {
        filter = argv[4], qos = atoi(argv[5]), total = expected = atol(argv[6]), window = atol(argv[7]);
        bytes = (size_t)atol(argv[8]), idle_s = atof(argv[9]);
    } else if (pub) {
        qos = atoi(argv[4]), total = atol(argv[5]), window = atol(argv[6]), bytes = (size_t)atol(argv[7]);
    } else {
        qos = atoi(argv[4]), clients = atoi(argv[5]), expected = atol(argv[6]), idle_s = atof(argv[7]);
    }
    struct client *all = calloc((size_t)clients, sizeof *all);
    int poll = epoll_create1(0);
    for (int i = 0; i < clients; i++) {
        char id[300];
        snprintf(id, sizeof id, "%s-%d", name, i);
        open_client(&all[i], port, id);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    int waiting_for_go = 1;
    double started = now(), moved = now(), acked_at = now();
    long received = 0;
    struct epoll_event events[256];
    for (;;) {
        int found = epoll_wait(poll, events, 256, 100), subscribed = 0, gone = 0;
        for (int i = 0; i < found; i++) {
            struct client *c = events[i].data.ptr;
            int was_ready = c->ready;
            if (c->open && read_client(c)) moved = now();
            if (c->ready && !was_ready && !pub) subscribe(c, filter, qos);
            if (!c->open) epoll_ctl(poll, EPOLL_CTL_DEL, c->fd, NULL);
        }
        received = 0;
        for (int i = 0; i < clients; i++) {
            struct client *c = &all[i];
            received += c->received;
            subscribed += c->subscribed;
            gone += !c->open;
        }
        if (waiting_for_go && (pub ? all[0].ready : subscribed == clients)) {
            /* The caller starts publishers when every subscriber is granted. */
            char line[8];
            printf("ready\n");
            fflush(stdout);
            if (!fgets(line, sizeof line, stdin)) return 1;
            waiting_for_go = 0;
            started = moved = now();
        }
        if (!waiting_for_go && total) {
            struct client *c = &all[0];
            /* QoS 0 is paced by what the socket takes. */
            while (c->open && c->sent < total && (qos ? c->sent - c->acked < window : c->out_used < 65536)) {
                publish(c, out, qos, c->sent++, bytes);
                if (!qos) moved = now();
            }
            if (c->acked < total) acked_at = now();
        }
        for (int i = 0; i < clients; i++)
            if (all[i].out_used) flush_out(&all[i]);
        if (waiting_for_go) {
            if (now() - started > idle_s) BAD("not granted within %g s\n", idle_s);
            continue;
        }
        int sent_all = !total || (all[0].sent == total && !all[0].out_used && (!qos || all[0].acked == total));
        if ((sent_all && received >= expected * clients) || gone == clients || now() - moved > idle_s) break;
    }
    long repeated = 0, disordered = 0, expelled = 0, least = -1;
    int reason = -1;
    for (int i = 0; i < clients; i++) {
        repeated += all[i].repeated;
        disordered += all[i].disordered;
        expelled += !all[i].open;
        if (all[i].reason >= 0) reason = all[i].reason;
        if (least < 0 || all[i].received < least) least = all[i].received;
    }
    printf("{\"clients\": %d, \"expected\": %ld, \"received\": %ld, \"least\": %ld, \"repeated\": %ld, "
           "\"disordered\": %ld, \"closed\": %ld, \"reason\": %d, \"sent\": %ld, \"acked\": %ld, "
           "\"acked_s\": %.3f, \"seconds\": %.3f}\n",
           clients, expected * clients, received, least, repeated, disordered, expelled, reason, all[0].sent,
           all[0].acked, acked_at - started, moved - started);
    return 0;
}
