/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace for gdbs: see walk-session.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/start-gdb.h"
#include "gdb/symbol-file.h"
#include "walk-py.h"
#include "gdb/walk-session.h"
#include "replay/private-folder.h"

struct walk_session {
    struct walk_server *server;
    struct process_symbols *files;
    char *folder;
    int lock;
    char *commands;
    char *kernel;               /* its symbols, or NULL */
    int sock;                   /* listens */
    guint source;
    GMainLoop *loop;
};

static char *file_of(const struct walk_session *s, const char *name)
{
    return g_build_filename(s->folder, name, NULL);
}

/* Commands that gdb itself goes forwards with, which takes a window */
static const char *const ahead[] = { "advance", "until" };

/* What a gdb has to know.  A gdb without Python walks in windows that it moves
 * itself. */
static bool write_commands(const struct walk_session *s, const char *target,
                           GError **error)
{
    g_autofree char *python = file_of(s, "walk.py");
    g_autofree char *quoted = g_strescape(python, NULL);
    g_autoptr(GString) text = g_string_new(
        "set architecture i386:x86-64\n"
        "set remotetimeout 120\n"
        "set record btrace replay-memory-access read-write\n");

    process_symbols_define(s->files, text);
    g_string_append(text, "define hookpost-monitor\n"
                    "maintenance flush register-cache\n"
                    "maintenance flush dcache\n"
                    PROCESS_SYMBOLS_COMMAND "\n"
                    "end\n");
    /* The user's Python has names of its own. */
    g_string_append_printf(text, "if !$_isvoid($_strlen)\n"
                           "python exec(compile(open(b\"%s\").read(), "
                           "\"walk.py\", \"exec\"), {})\n"
                           "define hook-monitor\nbacktrail-leave\nend\n"
                           "define hook-continue\nbacktrail-leave\nend\n",
                           quoted);
    for (unsigned i = 0; i < G_N_ELEMENTS(ahead); i++) {
        g_string_append_printf(text, "define hook-%s\nbacktrail-ahead\nend\n",
                               ahead[i]);
    }
    g_string_append(text, "end\n");
    if (s->kernel) {
        g_string_append_printf(text, "symbol-file %s\n", s->kernel);
    }
    g_string_append_printf(text, "target remote %s\n", target);
    return g_file_set_contents(s->commands, text->str, text->len, error);
}

static bool write_files(struct walk_session *s,
                        const struct walk_server_options *options,
                        GError **error)
{
    g_autofree char *kernel = file_of(s, "kernel");
    g_autofree char *python = file_of(s, "walk.py");
    bool any;

    if (!symbol_file_write_trace(kernel, options->trace, &any, error) ||
        !g_file_set_contents(python, walk_py, -1, error)) {
        return false;
    }
    s->kernel = any ? g_steal_pointer(&kernel) : NULL;
    s->commands = file_of(s, "gdb-commands");
    s->files = process_symbols_new(options->symbols, s->folder, error);
    return s->files;
}

static void on_ended(void *opaque)
{
    struct walk_session *s = opaque;

    if (s->loop && s->sock < 0) {
        g_main_loop_quit(s->loop);
    }
}

struct walk_session *
walk_session_new(const struct walk_server_options *options, GError **error)
{
    struct walk_server_options with = *options;
    struct walk_session *s = g_new0(struct walk_session, 1);

    s->sock = s->lock = -1;
    s->folder = private_folder_new(g_get_tmp_dir(), &s->lock, error);
    if (s->folder && write_files(s, options, error)) {
        with.files = s->files;
        with.ended = on_ended;
        with.opaque = s;
        s->server = walk_server_new(&with, error);
    }
    if (!s->server) {
        walk_session_free(s);
        return NULL;
    }
    return s;
}

void walk_session_free(struct walk_session *s)
{
    if (s) {
        if (s->source) {
            g_source_remove(s->source);
        }
        if (s->sock >= 0) {
            close(s->sock);
        }
        walk_server_free(s->server);
        process_symbols_free(s->files);
        if (s->folder) {
            private_folder_remove(s->folder, s->lock);
        }
        g_free(s->folder);
        g_free(s->commands);
        g_free(s->kernel);
        g_free(s);
    }
}

static gboolean on_gdb(gint fd, GIOCondition condition, gpointer opaque)
{
    struct walk_session *s = opaque;
    int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (sock >= 0) {
        walk_server_add(s->server, sock, sock);
    }
    return G_SOURCE_CONTINUE;
}

static void listen_at(struct walk_session *s, int sock)
{
    s->sock = sock;
    s->source = g_unix_fd_add(sock, G_IO_IN, on_gdb, s);
}

bool walk_session_gdb(struct walk_session *s, char *const *arguments,
                      int signal_fd, int *status, GError **error)
{
    g_autofree char *socket = file_of(s, "walk");
    int sock = start_gdb_listen(socket, error);

    if (sock < 0) {
        return false;
    }
    listen_at(s, sock);
    return write_commands(s, socket, error) &&
           start_gdb(s->commands, arguments, signal_fd, status, error);
}

/* A port of this host alone; 0 is any that is free, which @port gets. */
static int open_port(unsigned *port, GError **error)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(*port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t size = sizeof(address);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (sock >= 0 &&
        !setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
        !bind(sock, (const struct sockaddr *)&address, size) &&
        !listen(sock, 8) &&
        !getsockname(sock, (struct sockaddr *)&address, &size)) {
        *port = ntohs(address.sin_port);
        return sock;
    }
    btrail_agent_error_errno(error, "the port");
    if (sock >= 0) {
        close(sock);
    }
    return -1;
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer opaque)
{
    struct walk_session *s = opaque;

    g_main_loop_quit(s->loop);
    return G_SOURCE_CONTINUE;
}

static void run(struct walk_session *s)
{
    s->loop = g_main_loop_new(NULL, FALSE);
    g_main_loop_run(s->loop);
    g_clear_pointer(&s->loop, g_main_loop_unref);
}

bool walk_session_port(struct walk_session *s, unsigned port, int signal_fd,
                       void (*ready)(const char *commands, unsigned port),
                       GError **error)
{
    int sock = open_port(&port, error);
    g_autofree char *target = g_strdup_printf("localhost:%u", port);
    guint source;

    if (sock < 0 || !write_commands(s, target, error)) {
        if (sock >= 0) {
            close(sock);
        }
        return false;
    }
    listen_at(s, sock);
    source = g_unix_fd_add(signal_fd, G_IO_IN, on_signal, s);
    ready(s->commands, port);
    run(s);
    g_source_remove(source);
    return true;
}

void walk_session_stdio(struct walk_session *s)
{
    signal(SIGPIPE, SIG_IGN);
    walk_server_add(s->server, fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                    fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    run(s);
}
