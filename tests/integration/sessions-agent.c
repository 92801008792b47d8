/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: sessions-agent SOCKET
 *        sessions-agent --scan FILE
 *
 * An agent with any number of sessions on one capture.  Listens on a unix
 * socket until one device connects.  Lines of the standard input are
 *
 *     add NAME FILE PRIVILEGE [PROCESS]
 *     last NAME FOLDER BYTES
 *     dump NAME FILE
 *     remove NAME
 *
 * and each is answered with "ok" once it is done.  Those that are added before
 * a line "go" are in the capture from its beginning.  The sessions end with the
 * standard input, or with the capture.
 *
 * With --scan, searches for addresses of the kernel in the sideband of a trace.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backtrail/names.h"
#include "drain/capture.h"
#include "lib/agent/code-piece.h"

static GHashTable *sessions;

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static void wait_for(int fd)
{
    struct pollfd pfd = { .fd = fd, .events = POLLIN };

    while (poll(&pfd, 1, -1) < 0) {
        continue;
    }
}

static int finish(const char *name, struct session *s)
{
    struct session_result result;
    int ret = 0;

    session_finish(s, &result);
    printf("%s: %" G_GUINT64_FORMAT " records, %" G_GUINT64_FORMAT
           " filtered, %" G_GUINT64_FORMAT " lost, %" G_GUINT64_FORMAT
           " unexplained\n", name, result.progress.records,
           result.progress.filtered, result.progress.lost,
           result.unexplained);
    if (result.error) {
        printf("%s: %s\n", name, result.error->message);
        g_error_free(result.error);
        ret = 1;
    }
    g_free(result.no_names);
    return ret;
}

static void add(struct capture *c, char **words,
                struct session_settings *options)
{
    struct session_progress p = { 0 };
    g_autoptr(GError) error = NULL;
    struct session *s;

    options->metadata = json_object_new();
    json_object_set_string_member(options->metadata, "session", words[1]);
    s = session_new(options, &error);
    json_object_unref(options->metadata);
    if (!s) {
        g_error("%s", error->message);
    }
    g_hash_table_insert(sessions, g_strdup(words[1]), s);
    if (!c) {
        return;
    }
    capture_add(c, s);
    while (!p.begun) {
        struct pollfd done = {
            .fd = session_done_fd(s), .events = POLLIN,
        };

        if (poll(&done, 1, 1) > 0) {
            g_error("%s: the capture has ended", words[1]);
        }
        session_progress(s, &p);
    }
}

static void add_file(struct capture *c, char **words)
{
    const char *processes[] = { words[4], NULL };
    struct session_settings options = {
        .filter.privilege = atoi(words[3]),
        .filter.processes = words[4] ? processes : NULL,
    };
    const struct btrail_store_options store = { .path = words[2] };

    if (btrail_store_open(&options.store, &store)) {
        g_error("%s: %s", words[2], g_strerror(errno));
    }
    add(c, words, &options);
}

static void add_last(struct capture *c, char **words)
{
    struct session_settings options = {
        .mode = SESSION_LAST,
        .folder = words[2],
        .limit.bytes = strtoull(words[3], NULL, 10),
    };

    add(c, words, &options);
}

static void dump(char **words)
{
    g_autoptr(GError) error = NULL;
    struct session_dump d = { .why = NULL };

    if (!session_dump(g_hash_table_lookup(sessions, words[1]),
                      words[2], &d, &error)) {
        g_error("%s", error->message);
    }
    printf("%s: dumped %" G_GUINT64_FORMAT " records\n", words[1], d.records);
}

static void remove_session(struct capture *c, const char *name)
{
    struct session *s = g_hash_table_lookup(sessions, name);

    capture_remove(c, s);
    wait_for(session_done_fd(s));
    finish(name, s);
    g_hash_table_remove(sessions, name);
}

/* With the sessions that there are */
static struct capture *start(int sock)
{
    struct capture_options options = { .names = true };
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    GHashTableIter iter;
    gpointer s;

    options.sock = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
    if (options.sock < 0) {
        g_error("accept: %s", g_strerror(errno));
    }
    g_hash_table_iter_init(&iter, sessions);
    while (g_hash_table_iter_next(&iter, NULL, &s)) {
        g_ptr_array_add(list, s);
    }
    options.sessions = (struct session *const *)list->pdata;
    options.n_sessions = list->len;
    return capture_start(&options);
}

static int serve(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct capture_result result;
    struct capture *c = NULL;
    GHashTableIter iter;
    gpointer name, s;
    char line[4096];
    int sock, ret = 0;

    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 ||
        bind(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(sock, 1) < 0) {
        return fail(path);
    }
    sessions = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    while (fgets(line, sizeof(line), stdin)) {
        g_auto(GStrv) words = g_strsplit(g_strchomp(line), " ", -1);

        if (!strcmp(words[0], "go")) {
            c = start(sock);
        } else if (!strcmp(words[0], "add")) {
            add_file(c, words);
        } else if (!strcmp(words[0], "last")) {
            add_last(c, words);
        } else if (!strcmp(words[0], "dump")) {
            dump(words);
        } else {
            remove_session(c, words[1]);
        }
        printf("ok\n");
    }
    capture_stop(c);
    capture_finish(c, &result);
    if (result.error) {
        printf("%s\n", result.error->message);
        g_error_free(result.error);
        ret = 1;
    }
    g_hash_table_iter_init(&iter, sessions);
    while (g_hash_table_iter_next(&iter, &name, &s)) {
        ret |= finish(name, s);
    }
    return ret;
}

static uint64_t scan_code(const uint8_t *data, size_t size)
{
    struct btrail_code_piece piece;
    uint64_t found = 0;
    uint32_t i;

    if (!btrail_code_piece_get(data, size, &piece)) {
        return 1;
    }
    for (i = 0; i < piece.entries; i++) {
        struct btrail_code_entry entry;

        btrail_code_piece_entry(&piece, i, &entry);
        found += entry.number && entry.linear >> 63;
    }
    return found;
}

static uint64_t scan_snapshot(const void *data, size_t size, uint64_t *mm)
{
    struct btrail_snapshot *snapshot;
    uint64_t found = 0;
    uint32_t i, k;

    if (btrail_snapshot_decode(&snapshot, data, size)) {
        return 1;
    }
    for (i = 0; i < snapshot->n; i++) {
        const struct btrail_process *p = &snapshot->processes[i];

        *mm = MAX(*mm, p->mm);
        found += (p->mm | p->pgd | p->user_pgd) >> 63;
        for (k = 0; k < p->n_mappings; k++) {
            found += (p->mappings[k].start | p->mappings[k].end) >> 63;
        }
    }
    btrail_snapshot_free(snapshot);
    return found;
}

static int scan(const char *path)
{
    uint64_t pieces[8] = { 0 }, found = 0, mm = 0;
    struct btrail_sideband_info info;
    struct btrail_trace *trace;
    unsigned i;
    void *data;
    int ret;

    if (btrail_trace_open(&trace, path)) {
        return fail(path);
    }
    for (i = 0; !(ret = btrail_trace_sideband(trace, i, &info, &data)); i++) {
        pieces[info.kind % G_N_ELEMENTS(pieces)]++;
        found += info.kind == BTRAIL_SIDEBAND_CODE ?
                 scan_code(data, info.size) :
                 info.kind == BTRAIL_SIDEBAND_PROCESSES ?
                 scan_snapshot(data, info.size, &mm) : 0;
        free(data);
    }
    btrail_trace_close(trace);
    printf("{\"code\":%" G_GUINT64_FORMAT ",\"symbols\":%" G_GUINT64_FORMAT
           ",\"snapshots\":%" G_GUINT64_FORMAT ",\"found\":%" G_GUINT64_FORMAT
           ",\"mm\":%" G_GUINT64_FORMAT "}\n", pieces[BTRAIL_SIDEBAND_CODE],
           pieces[BTRAIL_SIDEBAND_SYMBOLS],
           pieces[BTRAIL_SIDEBAND_PROCESSES], found, mm);
    return ret != -BTRAIL_ERR_END;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "--scan")) {
        return scan(argv[2]);
    }
    return argc == 2 ? serve(argv[1]) : 2;
}
