/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a guest from itself: see guest-files.h
 *
 * The guest can send anything, as slowly as it likes.  A file is kept if it has
 * the build-id that was asked for, under a name that the guest does not choose.
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/guest-files.h"
#include "cli/missing-files.h"
#include "cli/print.h"
#include "guest-names/name-reader.h"
#include "util/unix-socket.h"
#include "util/whole-io.h"

/* How long the guest may say nothing, and the most bytes of all files */
#define SILENT_MS   10000
#define CLOSED      "the connection to the guest was closed; is another " \
                    "program connected to its port?"
#define ALL_MAX     (UINT64_C(4) << 30)

/**
 * struct guest_files - a conversation
 * @fd:   of the file that is being written, or -1
 * @at:   how much of it is there
 * @done: all of it is, or there is none
 * @all:  bytes of all files
 */
struct guest_files {
    int sock;
    struct name_reader *reader;
    bool begun;
    int fd;
    uint64_t at;
    bool done;
    bool whole;
    uint64_t all;
    char *why;
};

static void fail(struct guest_files *g, char *why)
{
    g_free(g->why);
    g->why = why;
}

static void take_content(struct guest_files *g, const struct word *w)
{
    const struct btrail_guest_content *c = &w->content;
    int error;

    if (g->done || g->fd < 0) {
        return;
    }
    if (c->error || c->at != g->at || c->total > BTRAIL_GUEST_FILE_MAX ||
        c->total - g->at < c->size || !c->size) {
        g->done = true;
        return;
    }
    g->all += c->size;
    error = g->all > ALL_MAX ? EFBIG :
            whole_write(g->fd, w->text[0], c->size);
    if (error) {
        fail(g, g_strdup_printf("cannot write a file: %s",
                                g_strerror(error)));
        return;
    }
    g->at += c->size;
    g->done = g->whole = g->at == c->total;
}

static void take(void *opaque, const struct word *w)
{
    struct guest_files *g = opaque;

    if (w->type == BTRAIL_GUEST_HELLO) {
        g->begun = true;
    } else if (w->type == BTRAIL_GUEST_CONTENT) {
        take_content(g, w);
    }
}

/* Takes what the guest says, until a condition holds.  False after an error */
static bool hear(struct guest_files *g, const bool *until)
{
    g_autofree uint8_t *data = g_malloc(BTRAIL_GUEST_MESSAGE_MAX);
    struct pollfd poll_in = { .fd = g->sock, .events = POLLIN };

    while (!*until && !g->why) {
        int ready = poll(&poll_in, 1, SILENT_MS);
        ssize_t n = ready > 0 ? recv(g->sock, data, BTRAIL_GUEST_MESSAGE_MAX,
                                     0) : -1;
        char *why;

        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (!ready) {
            fail(g, g_strdup(g->begun ? "the guest has stopped answering" :
                             "backtrail-guest-names does not run in the "
                             "guest, or does not answer"));
        } else if (n <= 0) {
            fail(g, g_strdup(CLOSED));
        } else if (!name_reader_feed(g->reader, data, (size_t)n, take, g,
                                     &why)) {
            fail(g, why);
        }
    }
    return !g->why;
}

static bool say(struct guest_files *g, uint16_t type, const GByteArray *data)
{
    struct btrail_guest_header header = { .size = data->len, .type = type };
    g_autoptr(GByteArray) all = g_byte_array_new();
    int error;

    g_byte_array_append(all, (const uint8_t *)&header, sizeof(header));
    g_byte_array_append(all, data->data, data->len);
    error = whole_send(g->sock, all->data, all->len);
    if (error) {
        fail(g, g_strdup(error == EPIPE ? CLOSED : g_strerror(error)));
    }
    return !error;
}

static bool begin(struct guest_files *g)
{
    g_autoptr(GByteArray) data = g_byte_array_new();
    struct btrail_guest_open open;

    g->reader = name_reader_open(&open, BTRAIL_GUEST_WANT_FILES);
    g_byte_array_append(data, (const uint8_t *)&open, sizeof(open));
    return say(g, BTRAIL_GUEST_OPEN, data) && hear(g, &g->begun);
}

static bool ask(struct guest_files *g, const char *id,
                const struct missing_file *file)
{
    struct btrail_guest_file wanted = {
        .pid = file->pid, .path_size = (uint32_t)strlen(file->path),
        .build_id_size = (uint32_t)strlen(id) / 2,
    };
    g_autoptr(GByteArray) data = g_byte_array_new();

    g_byte_array_append(data, (const uint8_t *)&wanted, sizeof(wanted));
    g_byte_array_append(data, (const uint8_t *)file->path, wanted.path_size);
    for (uint32_t i = 0; i < wanted.build_id_size; i++) {
        uint8_t byte = (uint8_t)(g_ascii_xdigit_value(id[2 * i]) << 4 |
                                 g_ascii_xdigit_value(id[2 * i + 1]));

        g_byte_array_append(data, &byte, 1);
    }
    return say(g, BTRAIL_GUEST_FILE, data);
}

/* Gets a file into its place: is it there?  @g has an error, if there was one. */
static bool get_file(struct guest_files *g, const char *folder, const char *id,
                     const struct missing_file *file)
{
    g_autofree char *place = missing_file_place(folder, id);
    g_autofree char *path = place ? g_strdup_printf("%s.XXXXXX", place) : NULL;
    bool kept = false;

    if (strlen(file->path) > BTRAIL_GUEST_PATH_MAX) {
        return false;
    }
    g->fd = path ? g_mkstemp(path) : -1;
    if (g->fd < 0) {
        fail(g, g_strdup_printf("cannot write to %s: %s", folder,
                                g_strerror(errno)));
        return false;
    }
    g->at = 0;
    g->done = g->whole = false;
    if (ask(g, id, file) && hear(g, &g->done) && g->whole) {
        kept = missing_file_keep(path, id) && !g_rename(path, place);
    }
    close(g->fd);
    g->fd = -1;
    if (!kept) {
        g_unlink(path);
    }
    return kept;
}

static void show_progress(unsigned n, unsigned all, const char *path)
{
    if (isatty(STDERR_FILENO)) {
        cli_fprintf(stderr, "\r\033[Kfile %u of %u: %s", n, all, path);
    }
}

bool guest_files_copy(const struct btrail_trace *trace, const char *path,
                      struct elf_files *files)
{
    g_autofree char *folder = elf_files_images();
    g_autoptr(GHashTable) missing = missing_files_new(trace, files);
    unsigned n = 0, found = 0, all = g_hash_table_size(missing);
    struct guest_files g = { .fd = -1 };
    g_autoptr(GError) error = NULL;
    GHashTableIter iter;
    gpointer id, file;
    bool ok;

    if (!all) {
        return true;
    }
    g.sock = unix_connect(path, &error);
    if (error) {
        cli_error("--guest-files: %s", error->message);
        return false;
    }
    g_hash_table_iter_init(&iter, missing);
    ok = begin(&g);
    while (ok && !g.why && g_hash_table_iter_next(&iter, &id, &file)) {
        show_progress(++n, all, ((struct missing_file *)file)->path);
        found += get_file(&g, folder, id, file);
    }
    if (n && isatty(STDERR_FILENO)) {
        cli_fprintf(stderr, "\r\033[K");
    }
    if (g.why) {
        cli_error("--guest-files: %s", g.why);
    } else {
        missing_files_report("--guest-files", "in the guest", found, all);
    }
    ok = !g.why;
    close(g.sock);
    name_reader_free(g.reader);
    g_free(g.why);
    return ok;
}
