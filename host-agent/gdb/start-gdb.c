/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that is set up: see start-gdb.h
 */

#include <glib-unix.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gdb/server.h"
#include "gdb/start-gdb.h"

/* How long gdb has to end when it is told to */
#define PATIENCE_MS 300

/*
 * gdb has no setting for what a server can ask while gdb waits for a stop (File
 * I/O): so it is connected only to whoever has the private folder.
 */
static const char *const settings[] = {
    /* Again, since files of the user's are read in between */
    START_GDB_SAFE,
    "set debuginfod enabled off",
    "set remote hostio-open-packet off",
    "set remote hostio-readlink-packet off",
    "set remote hostio-setfs-packet off",
    "set remote library-info-svr4-packet off",
    "set remote pid-to-exec-file-packet off",
    "set remote system-call-allowed 0",
    "set sysroot /dev/null",
    /* Also those of a program that does not run here when gdb runs on */
    "set breakpoint always-inserted on",
    /* When the server has ended, another one may come to its address. */
    "set tcp auto-retry off",
    "set remotetimeout 120",
    "set architecture i386:x86-64",
};

/* A command of the monitor can have moved the guest. */
static const char after_monitor[] =
    "define hookpost-monitor\n"
    "backtrail-quit\n"
    "maintenance flush register-cache\n"
    "maintenance flush dcache\n";

/*
 * gdb reads the list of files and their symbols by itself when a stop says that
 * it has changed.
 */
#define FILES_OF_PROCESS    "sharedlibrary\n"

/*
 * A gdb that was interrupted while it waited for the monitor quits as soon as it
 * thinks of it, also in the midst of a request, whose answer it then takes for
 * that of the next one.  Python's code makes it think of it, and so does a loop;
 * but for the condition of a loop gdb unwinds the frame that it had before the
 * guest was moved, for which memory can be missing now.
 *
 * What only a gdb that has Python can: it is at the thread that has moved.
 */
static const char python[] =
    "if !$_isvoid($_strlen)\n"
    "python\n"
    "import gdb\n"
    "class BacktrailQuit(gdb.Command):\n"
    "    def __init__(self):\n"
    "        super().__init__('backtrail-quit', gdb.COMMAND_OBSCURE)\n"
    "    def invoke(self, argument, from_tty):\n"
    "        pass\n"
    "BacktrailQuit()\n"
    "class BacktrailMoved(gdb.Command):\n"
    "    def __init__(self):\n"
    "        super().__init__('backtrail-moved', gdb.COMMAND_OBSCURE)\n"
    "    def invoke(self, argument, from_tty):\n"
    "        inferior = gdb.selected_inferior()\n"
    "        said = inferior.connection.send_packet('" GDB_SERVER_MOVED "')\n"
    "        if not said or said.startswith(b'E'):\n"
    "            return\n"
    "        for thread in inferior.threads():\n"
    "            if thread.ptid[1] == int(said, 16) and \\\n"
    "                    thread.num != gdb.selected_thread().num:\n"
    "                gdb.execute(f'thread {thread.num}')\n"
    "BacktrailMoved()\n"
    "end\n"
    "else\n"
    "define backtrail-quit\n"
    "set $backtrail_quit = 1\n"
    "while $backtrail_quit\n"
    "set $backtrail_quit = 0\n"
    "end\n"
    "end\n"
    "define backtrail-moved\n"
    "end\n"
    "end\n";

bool start_gdb_write(const char *path, const struct start_gdb_commands *c,
                     GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(settings); i++) {
        g_string_append_printf(text, "%s\n", settings[i]);
    }
    g_string_append_printf(text, "set remote library-info-packet %s\n"
                           "set solib-search-path %s\n"
                           "%s%s%sbacktrail-moved\nend\n",
                           c->files ? "on" : "off", c->files ?: "",
                           python, after_monitor,
                           c->files ? FILES_OF_PROCESS : "");
    if (c->kernel) {
        g_string_append_printf(text, "symbol-file %s\n", c->kernel);
    }
    g_string_append_printf(text, "%starget remote %s\n%s", c->more, c->target,
                           c->files ? FILES_OF_PROCESS : "");
    return g_file_set_contents(path, text->str, text->len, error);
}

char *start_gdb_by_hand(const char *commands)
{
    g_autofree char *quoted = g_shell_quote(commands);

    return g_strdup_printf("gdb " START_GDB_OPTION " '" START_GDB_SAFE "' "
                           "-x %s", quoted);
}

/* gdb has its own way with the signals that we block. */
static void unblock_signals(void *opaque)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Without us it has nothing to debug. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

bool start_gdb_shares_ctrl_c(int sock)
{
    struct ucred who;
    socklen_t size = sizeof(who);

    return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
           who.pid > 0 && getpgid(who.pid) == getpgrp();
}

/* A gdb that runs */
struct running {
    GMainLoop *loop;
    GPid gdb;
    int status;
    guint patience;
    void (*ctrl_c)(void *opaque);
    void *opaque;
};

/* It has better things to do than to end. */
static gboolean on_patience(gpointer opaque)
{
    struct running *r = opaque;

    r->patience = 0;
    kill(r->gdb, SIGKILL);
    return G_SOURCE_REMOVE;
}

static void on_exit_of_gdb(GPid pid, gint status, gpointer opaque)
{
    struct running *r = opaque;

    r->status = status;
    g_main_loop_quit(r->loop);
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer opaque)
{
    struct running *r = opaque;
    struct signalfd_siginfo info;

    if (read(fd, &info, sizeof(info)) != sizeof(info)) {
        return G_SOURCE_CONTINUE;
    }
    if (info.ssi_signo == SIGINT) {
        /* gdb has it, too. */
        if (r->ctrl_c) {
            r->ctrl_c(r->opaque);
        }
    } else {
        kill(r->gdb, SIGTERM);
        r->patience = r->patience ?: g_timeout_add(PATIENCE_MS, on_patience,
                                                   r);
    }
    return G_SOURCE_CONTINUE;
}

bool start_gdb(const char *commands, char *const *arguments, int signal_fd,
               void (*ctrl_c)(void *opaque), void *opaque, int *status,
               GError **error)
{
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    struct running r = { .ctrl_c = ctrl_c, .opaque = opaque };
    GSource *signals = NULL;
    bool ok;

    g_ptr_array_add(argv, (char *)"gdb");
    g_ptr_array_add(argv, (char *)"-q");
    g_ptr_array_add(argv, (char *)START_GDB_OPTION);
    g_ptr_array_add(argv, (char *)START_GDB_SAFE);
    g_ptr_array_add(argv, (char *)"-x");
    g_ptr_array_add(argv, (char *)commands);
    for (; arguments && *arguments; arguments++) {
        g_ptr_array_add(argv, *arguments);
    }
    g_ptr_array_add(argv, NULL);
    ok = g_spawn_async(NULL, (char **)argv->pdata, NULL,
                       G_SPAWN_SEARCH_PATH | G_SPAWN_CHILD_INHERITS_STDIN |
                       G_SPAWN_DO_NOT_REAP_CHILD, unblock_signals, NULL,
                       &r.gdb, error);
    if (!ok) {
        g_prefix_error(error, "install gdb: ");
        return false;
    }
    r.loop = g_main_loop_new(NULL, FALSE);
    g_child_watch_add(r.gdb, on_exit_of_gdb, &r);
    if (signal_fd >= 0) {
        signals = g_unix_fd_source_new(signal_fd, G_IO_IN);
        g_source_set_callback(signals, G_SOURCE_FUNC(on_signal), &r, NULL);
        g_source_attach(signals, NULL);
    }
    g_main_loop_run(r.loop);
    if (signals) {
        g_source_destroy(signals);
        g_source_unref(signals);
    }
    g_clear_handle_id(&r.patience, g_source_remove);
    g_main_loop_unref(r.loop);
    *status = r.status;
    return true;
}
