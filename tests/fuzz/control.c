/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a device, and a client that gives commands through it
 *
 * The input is what comes through a control connection to the service: with 'R'
 * in front, its bytes; otherwise lines, each of which is the text of a message.
 * Then the connection is closed.  Whatever it says is to be over then, and
 * nothing of it outside of the folder for traces.
 */

#include <ftw.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backtrail/transport.h"
#include "fuzz.h"
#include "service/log.h"
#include "service/service.h"

#define DEADLINE    (5 * G_TIME_SPAN_SECOND)
#define MAX_SENT    (128u << 10)    /* fits into a socket */

static char *folder;

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void set_true(void *opaque)
{
    *(bool *)opaque = true;
}

/* The connection is gone, and with it all that is not done. */
static void settle(void)
{
    unsigned quiet = 0;

    while (quiet < 3) {
        if (g_main_context_iteration(NULL, FALSE)) {
            quiet = 0;
        } else {
            g_usleep(10);
            quiet++;
        }
    }
}

static struct service *start(void)
{
    g_autofree char *text = g_strdup_printf(
        "[service]\nsocket=%s/socket\ntraces=%s/traces\nstate=%s/state\n"
        "[all-guests]\nkeep-free=0\n", folder, folder, folder);
    struct service *service =
        service_new(config_parse(text, "fuzz", NULL), NULL,
                    NULL);

    fuzz_require(service);
    return service;
}

static GByteArray *messages(const uint8_t *data, size_t size)
{
    GByteArray *bytes = g_byte_array_new();

    while (size) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end ? (size_t)(end - data) : size;
        struct btrail_msg head = {
            .magic = BTRAIL_MSG_MAGIC,
            .version = BTRAIL_TRANSPORT_VERSION,
            .type = BTRAIL_MSG_JSON,
            .value = n,
        };

        g_byte_array_append(bytes, (guint8 *)&head, sizeof(head));
        g_byte_array_append(bytes, data, n);
        size -= n + (end ? 1 : 0);
        data += n + (end ? 1 : 0);
    }
    return bytes;
}

/*
 * What the service has answered: that it did is what accepts an input.  Some
 * answers come from threads (of "list"), and may be too late for this.
 */
static bool read_all(int sock)
{
    char bytes[65536];
    bool any = false;

    while (recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        any = true;
    }
    return any;
}

/* The sockets and their locks, the folders, and nothing else */
static void check_folder(void)
{
    static const char *const known[] = {
        "socket", "socket.lock", "socket.names", "socket.names.lock",
        "state", "traces", NULL,
    };
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        fuzz_require(g_strv_contains(known, name));
    }
    g_dir_close(dir);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    const struct peer_process peer = { .pid = 1, .uid = 1, .process = "1-1-x" };
    g_autoptr(GByteArray) bytes = NULL;
    struct service *service;
    bool done = false;
    gint64 deadline;
    int socks[2];

    if (!folder) {
        folder = g_dir_make_tmp("fuzz-control-XXXXXX", NULL);
        service_log_silence();
    }
    if (!size || size > MAX_SENT) {
        return -1;
    }
    if (*data == 'R') {
        bytes = g_byte_array_new();
        g_byte_array_append(bytes, data + 1, size - 1);
    } else {
        bytes = messages(data, size);
    }
    g_mkdir_with_parents(folder, 0700);
    service = start();
    fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
    if (send(socks[0], bytes->data, bytes->len, MSG_DONTWAIT) ==
        (ssize_t)bytes->len) {
        connections_add(&service->connections, socks[1], &peer);
    } else {
        close(socks[1]);
    }
    settle();
    if (read_all(socks[0])) {
        fuzz_accepted();
    }
    close(socks[0]);
    settle();
    service_end(service, set_true, &done);
    deadline = g_get_monotonic_time() + DEADLINE;
    while (!done) {
        g_main_context_iteration(NULL, FALSE);
        fuzz_require(g_get_monotonic_time() < deadline);
    }
    check_folder();
    service_free(service);
    settle();
    remove_folder();
    return 0;
}
