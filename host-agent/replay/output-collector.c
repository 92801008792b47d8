/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Collects what a guest writes: see output-collector.h
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "replay/guest-output.h"
#include "replay/output-collector.h"
#include "replay/private-folder.h"
#include "replay/replay-arguments.h"
#include "util/close.h"
#include "util/parse.h"

#define NEW         "new-output"
/* A datagram of QEMU's has what its guest writes at once, some bytes. */
#define DATAGRAM    (1u << 18)
/* Of the socket that all others send to */
#define ALL         "all"

/**
 * struct output_collector
 * @names:    the folder with the sockets' names, open and then gone
 * @receiver: what all of @sockets send to
 * @stopper:  sends to it, too, and nothing but a datagram of no bytes
 * @sockets:  of ports
 * @run:      that grows, of @n bytes; @port is where they were written
 * @reason:   errno of what has failed, or 0
 */
struct output_collector {
    char *path, *new;
    struct guest_output_head head;
    int names;
    int receiver;
    int stopper;
    GArray *sockets;
    GThread *thread;
    FILE *file;
    uint8_t port;
    uint8_t run[GUEST_OUTPUT_RUN];
    unsigned n;
    int reason;
};

/* No path of the host's is too long for this. */
static void set_name(const struct output_collector *c,
                     struct sockaddr_un *address, const char *name)
{
    address->sun_family = AF_UNIX;
    g_snprintf(address->sun_path, sizeof(address->sun_path),
               "/proc/self/fd/%d/%s", c->names, name);
}

/* Of a port, or -1 */
static int port_of(const struct sockaddr_un *address)
{
    const char *name = strrchr(address->sun_path, '/');
    uint64_t port;

    return address->sun_family == AF_UNIX && name &&
           parse_text_number(name + 1, NULL, &port) && port <= UINT8_MAX ?
           (int)port : -1;
}

static void put(struct output_collector *c, const void *bytes, size_t n)
{
    if (!c->reason && fwrite(bytes, 1, n, c->file) != n) {
        c->reason = errno;
    }
}

static void end_run(struct output_collector *c)
{
    const uint8_t head[] = { c->port, c->n & 0xff, c->n >> 8 };

    if (c->n) {
        put(c, head, sizeof(head));
        put(c, c->run, c->n);
        c->n = 0;
    }
}

static void add(struct output_collector *c, uint8_t port, const uint8_t *bytes,
                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (port != c->port || c->n == sizeof(c->run)) {
            end_run(c);
            c->port = port;
        }
        c->run[c->n++] = bytes[i];
    }
}

/* It takes all that comes, whether it can be kept or not: QEMU would wait. */
static void *collect(void *opaque)
{
    struct output_collector *c = opaque;
    g_autofree uint8_t *bytes = g_malloc(DATAGRAM);
    ssize_t n;

    do {
        struct sockaddr_un from = { .sun_family = AF_UNSPEC };
        socklen_t size = sizeof(from) - 1;
        int port;

        n = recvfrom(c->receiver, bytes, DATAGRAM, MSG_TRUNC,
                     (struct sockaddr *)&from, &size);
        port = port_of(&from);
        if (n > DATAGRAM) {
            c->reason = EMSGSIZE;
        } else if (n > 0 && port >= 0) {
            add(c, port, bytes, n);
        } else if (n < 0 && errno != EINTR) {
            c->reason = errno;
        }
    } while (n > 0 || (n < 0 && errno == EINTR));
    end_run(c);
    /* If it was an error, QEMU gets one, too. */
    shutdown(c->receiver, SHUT_RDWR);
    return NULL;
}

/* A socket that sends to ours; with a name of its own, or NULL.  -1 with errno
 * after an error. */
static int open_sender(const struct output_collector *c, const char *name)
{
    struct sockaddr_un own = { 0 }, all = { 0 };
    int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (name) {
        set_name(c, &own, name);
    }
    set_name(c, &all, ALL);
    if (sock >= 0 &&
        ((name && bind(sock, (const struct sockaddr *)&own, sizeof(own))) ||
         connect(sock, (const struct sockaddr *)&all, sizeof(all)))) {
        btrail_close(sock);
        return -1;
    }
    return sock;
}

static bool open_receiver(struct output_collector *c)
{
    struct sockaddr_un all = { 0 };

    c->receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    set_name(c, &all, ALL);
    if (c->receiver < 0 ||
        bind(c->receiver, (const struct sockaddr *)&all, sizeof(all))) {
        return false;
    }
    c->stopper = open_sender(c, NULL);
    return c->stopper >= 0;
}

/* Nobody else can connect: the names are in a folder of this user's, which is
 * gone when there are all ports. */
static bool open_sockets(struct output_collector *c, unsigned serial,
                         unsigned others, GError **error)
{
    const int end = -1;
    int lock;
    g_autofree char *folder = private_folder_new(g_get_tmp_dir(), &lock, error);
    bool ok;

    if (!folder) {
        return false;
    }
    c->names = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ok = c->names >= 0 && open_receiver(c);
    for (unsigned i = 0; ok && i < serial + others; i++) {
        unsigned port = i < serial ? i : GUEST_OUTPUT_OTHER + i - serial;
        g_autofree char *name = g_strdup_printf("%u", port);
        int sock = open_sender(c, name);

        ok = sock >= 0;
        g_array_append_val(c->sockets, sock);
    }
    g_array_append_val(c->sockets, end);
    if (!ok) {
        agent_error_errno(error, "the sockets for what the guest writes");
    }
    private_folder_remove(folder, lock);
    return ok;
}

struct output_collector *output_collector_new(const struct recording *r,
                                              GError **error)
{
    struct output_collector *c = g_new0(struct output_collector, 1);
    int fd;

    c->path = recording_path(r, RECORDING_OUTPUT);
    c->new = recording_path(r, NEW);
    c->names = c->receiver = c->stopper = -1;
    c->sockets = g_array_new(FALSE, FALSE, sizeof(int));
    guest_output_head_init(&c->head, r);
    unlink(c->new);
    fd = open(c->new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
              0600);
    c->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!c->file) {
        agent_error_errno(error, c->new);
        btrail_close(fd);
        output_collector_finish(c, false, 0, NULL);
        return NULL;
    }
    /* The head comes last: without it, the file is nothing. */
    if (fseeko(c->file, sizeof(c->head), SEEK_SET)) {
        c->reason = errno;
    }
    return c;
}

bool output_collector_connect(struct output_collector *c, char ***arguments,
                              GError **error)
{
    unsigned serial = replay_arguments_ports(*arguments, true);
    unsigned others = replay_arguments_ports(*arguments, false);

    if (serial > GUEST_OUTPUT_PORTS || others > GUEST_OUTPUT_PORTS) {
        return agent_fail(error, AGENT_ERROR_PROTOCOL,
                          "the guest has %u ports; of %u it is known what it "
                          "writes", serial + others, GUEST_OUTPUT_PORTS);
    }
    if (!open_sockets(c, serial, others, error)) {
        return false;
    }
    replay_arguments_connect(arguments, (const int *)c->sockets->data);
    c->thread = g_thread_new("output", collect, c);
    return true;
}

const int *output_collector_sockets(const struct output_collector *c)
{
    return (const int *)c->sockets->data;
}

static void stop(struct output_collector *c)
{
    if (c->thread) {
        send(c->stopper, "", 0, 0);
        g_thread_join(c->thread);
    }
    for (unsigned i = 0; i < c->sockets->len; i++) {
        btrail_close(g_array_index(c->sockets, int, i));
    }
    btrail_close(c->stopper);
    btrail_close(c->receiver);
    btrail_close(c->names);
}

static bool save(struct output_collector *c, uint64_t end, GError **error)
{
    c->head.end = GUINT64_TO_LE(end);
    if (!c->reason && fseeko(c->file, 0, SEEK_SET)) {
        c->reason = errno;
    }
    put(c, &c->head, sizeof(c->head));
    if (fflush(c->file) && !c->reason) {
        c->reason = errno;
    }
    if (!c->reason && rename(c->new, c->path)) {
        c->reason = errno;
    }
    errno = c->reason;
    return !c->reason || agent_error_errno(error, c->new);
}

bool output_collector_finish(struct output_collector *c, bool ok, uint64_t end,
                             GError **error)
{
    stop(c);
    ok = ok && save(c, end, error);
    if (c->file) {
        fclose(c->file);
        if (!ok) {
            unlink(c->new);
        }
    }
    g_array_unref(c->sockets);
    g_free(c->path);
    g_free(c->new);
    g_free(c);
    return ok;
}
