/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace for gdbs: see trace-session.h
 */

#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "gdb/peer-processes.h"
#include "gdb/start-gdb.h"
#include "gdb/symbol-file.h"
#include "gdb/trace-session.h"
#include "replay/private-folder.h"
#include "util/server-socket.h"
#include "walk-py.h"

struct trace_session {
    struct trace_target *target;
    struct process_symbols *files;
    char *folder;
    int lock;
    char *commands;
    char *kernel;               /* its symbols, or NULL */
    struct server_socket *unix_socket;
    struct server_socket *port; /* or NULL */
    struct peer_processes *gdbs;
    GMainLoop *loop;            /* or NULL */
    bool one;                   /* is served, and no more */
};

static char *file_of(const struct trace_session *s, const char *name)
{
    return g_build_filename(s->folder, name, NULL);
}

#define SOCKET  "walk"

/* Commands that gdb itself goes forwards with, which takes a window */
static const char *const ahead[] = { "advance", "until" };

/* What a gdb has to know.  A gdb without Python walks in windows that it moves
 * itself. */
static bool write_commands(const struct trace_session *s, GError **error)
{
    g_autofree char *python = file_of(s, "walk.py");
    g_autofree char *quoted = g_strescape(python, NULL);
    g_autofree char *target = file_of(s, SOCKET);
    g_autoptr(GString) more = g_string_new("set record btrace "
                                           "replay-memory-access read-write\n");
    struct start_gdb_commands commands = {
        .files = s->folder,
        .kernel = s->kernel,
        .target = target,
    };

    /* The user's Python has names of its own. */
    g_string_append_printf(more, "if !$_isvoid($_strlen)\n"
                           "python exec(compile(open(b\"%s\").read(), "
                           "\"walk.py\", \"exec\"), {})\n"
                           "define hook-monitor\nbacktrail-leave\nend\n"
                           "define hook-continue\nbacktrail-leave\nend\n",
                           quoted);
    for (unsigned i = 0; i < G_N_ELEMENTS(ahead); i++) {
        g_string_append_printf(more, "define hook-%s\nbacktrail-ahead\nend\n",
                               ahead[i]);
    }
    /* Each thread has the files of its process, and others no window then. */
    g_string_append(more, "define hook-thread\nbacktrail-leave\nend\n"
                          "define hookpost-thread\nbacktrail-files\nend\n"
                          "else\n"
                          "define hookpost-thread\nsharedlibrary\nframe\nend\n"
                          "end\n");
    commands.more = more->str;
    return start_gdb_write(s->commands, &commands, error);
}

static bool write_files(struct trace_session *s,
                        const struct trace_target_options *options,
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
    s->files = process_symbols_new(options->symbols, s->folder);
    return true;
}

static gboolean on_ctrl_c(gint fd, GIOCondition condition, gpointer opaque)
{
    struct trace_session *s = opaque;
    struct signalfd_siginfo info;

    if (read(fd, &info, sizeof(info)) == sizeof(info)) {
        trace_target_interrupt(s->target);
    }
    return G_SOURCE_CONTINUE;
}

/* Ctrl-C is this gdb's. */
static void watch_ctrl_c(struct trace_session *s, GMainContext *context)
{
    GSource *source;
    sigset_t ctrl_c;

    sigemptyset(&ctrl_c);
    sigaddset(&ctrl_c, SIGINT);
    sigprocmask(SIG_BLOCK, &ctrl_c, NULL);
    signal(SIGINT, SIG_DFL);
    source = g_unix_fd_source_new(signalfd(-1, &ctrl_c, SFD_NONBLOCK),
                                  G_IO_IN);
    g_source_set_callback(source, G_SOURCE_FUNC(on_ctrl_c), s, NULL);
    g_source_attach(source, context);
}

/* In the process of a gdb: serves it. */
static void serve(void *opaque, unsigned number, int in, int out)
{
    struct trace_session *s = opaque;
    GMainContext *context = g_main_context_new();

    server_socket_free(s->unix_socket);
    server_socket_free(s->port);
    process_symbols_own(s->files, number);
    /* Before what it asks for, so that it interrupts nothing later. */
    if (start_gdb_shares_ctrl_c(in)) {
        watch_ctrl_c(s, context);
    }
    trace_target_serve(s->target, context, in, out);
    while (!trace_target_left(s->target)) {
        g_main_context_iteration(context, TRUE);
    }
}

static void on_ended(void *opaque, unsigned number)
{
    struct trace_session *s = opaque;

    process_symbols_forget(s->files, number);
    if (s->one && s->loop) {
        g_main_loop_quit(s->loop);
    }
}

struct trace_session *
trace_session_new(const struct trace_target_options *options, GError **error)
{
    static const struct peer_functions functions = { serve, on_ended };
    struct trace_target_options with = *options;
    struct trace_session *s = g_new0(struct trace_session, 1);

    s->lock = -1;
    s->folder = private_folder_new(g_get_tmp_dir(), &s->lock, error);
    if (s->folder && write_files(s, options, error)) {
        with.files = s->files;
        s->target = trace_target_new(&with, error);
    }
    if (!s->target) {
        trace_session_free(s);
        return NULL;
    }
    s->gdbs = peer_processes_new(&functions, s);
    return s;
}

void trace_session_free(struct trace_session *s)
{
    if (s) {
        server_socket_free(s->unix_socket);
        server_socket_free(s->port);
        peer_processes_free(s->gdbs);
        trace_target_free(s->target);
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

static void on_gdb(void *opaque, int sock)
{
    struct trace_session *s = opaque;

    peer_processes_add(s->gdbs, sock, sock);
}

/* In the private folder, for gdbs that our commands set up */
static bool listen_there(struct trace_session *s, GError **error)
{
    g_autofree char *path = file_of(s, SOCKET);

    s->unix_socket = server_socket_unix(path, on_gdb, s, error);
    return s->unix_socket && write_commands(s, error);
}

bool trace_session_gdb(struct trace_session *s, char *const *arguments,
                       int signal_fd, int *status, GError **error)
{
    return listen_there(s, error) &&
           start_gdb(s->commands, arguments, signal_fd, NULL, NULL, status,
                     error);
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer opaque)
{
    struct trace_session *s = opaque;

    g_main_loop_quit(s->loop);
    return G_SOURCE_CONTINUE;
}

static void run(struct trace_session *s, int signal_fd)
{
    guint source = g_unix_fd_add(signal_fd, G_IO_IN, on_signal, s);

    s->loop = g_main_loop_new(NULL, FALSE);
    g_main_loop_run(s->loop);
    g_clear_pointer(&s->loop, g_main_loop_unref);
    g_source_remove(source);
}

bool trace_session_port(struct trace_session *s, unsigned port, int signal_fd,
                        void (*ready)(const char *command, const char *address),
                        GError **error)
{
    g_autofree char *command = NULL, *address = NULL;

    s->port = server_socket_port(&port, on_gdb, s, error);
    if (!s->port || !listen_there(s, error)) {
        return false;
    }
    command = start_gdb_by_hand(s->commands);
    address = g_strdup_printf("127.0.0.1:%u", port);
    ready(command, address);
    run(s, signal_fd);
    return true;
}

void trace_session_stdio(struct trace_session *s, int signal_fd)
{
    signal(SIGPIPE, SIG_IGN);
    s->one = true;
    peer_processes_add(s->gdbs, fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                       fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (peer_processes_count(s->gdbs)) {
        run(s, signal_fd);
    }
}
