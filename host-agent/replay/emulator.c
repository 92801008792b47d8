/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU that we start, talk to, and end: see emulator.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/emulator.h"
#include "replay/private-folder.h"
#include "util/clock.h"
#include "util/json.h"

/* A busy machine starts QEMU slowly. */
#define START_TIMEOUT_MS    60000
#define COMMAND_TIMEOUT_MS  120000
/* QEMU's last words, for an error */
#define MAX_OUTPUT          (64u << 10)

struct emulator {
    struct emulator_options options;
    char *folder;
    int lock;                   /* of the folder; QEMU has it, too */
    GPtrArray *arguments;
    struct qmp *qmp;
    GPid pid;
    int status;                 /* once pid is 0 after it had been started */
};

/* What the process needs between fork() and exec(): no memory, no locks */
struct birth {
    int monitor;
    int lock;
    const int *inherit;
    int death_signal;
    pid_t parent;
};

struct emulator *emulator_new(const struct emulator_options *options,
                              GError **error)
{
    int lock;
    g_autofree char *folder = private_folder_new(g_get_tmp_dir(), &lock, error);
    struct emulator *e;

    if (!folder) {
        return NULL;
    }
    e = g_new0(struct emulator, 1);
    e->options = *options;
    e->folder = g_steal_pointer(&folder);
    e->lock = lock;
    e->arguments = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(e->arguments, g_strdup(options->program));
    for (char *const *a = options->arguments; *a; a++) {
        g_ptr_array_add(e->arguments, g_strdup(*a));
    }
    if (options->recording) {
        g_autofree char *link = emulator_path(e, "recording");

        if (symlink(options->recording, link)) {
            agent_error_errno(error, link);
            emulator_free(e);
            return NULL;
        }
    }
    return e;
}

char *emulator_path(const struct emulator *e, const char *name)
{
    return g_build_filename(e->folder, name, NULL);
}

void emulator_add(struct emulator *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_ptr_array_add(e->arguments, g_strdup_vprintf(format, args));
    va_end(args);
}

static void set_up_child(void *opaque)
{
    const struct birth *birth = opaque;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    /* Ctrl-C is for us, and we then end it in order. */
    setpgid(0, 0);
    fcntl(birth->monitor, F_SETFD, 0);
    fcntl(birth->lock, F_SETFD, 0);
    for (const int *fd = birth->inherit; fd && *fd >= 0; fd++) {
        fcntl(*fd, F_SETFD, 0);
    }
    prctl(PR_SET_PDEATHSIG, birth->death_signal);
    if (getppid() != birth->parent) {
        _exit(1);
    }
}

/* Its stderr goes to a file; it has no other way to say why it ends. */
static int open_output(const struct emulator *e, GError **error)
{
    g_autofree char *path = emulator_path(e, "stderr");
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0) {
        agent_error_errno(error, path);
    }
    return fd;
}

/*
 * Not 0, 1 or 2: GLib closes those if they are already where they should get
 * to.
 */
static int open_standard(int given)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high = fcntl(given >= 0 ? given : fd, F_DUPFD_CLOEXEC, 3);

    close(fd);
    return high;
}

static bool spawn(struct emulator *e, int monitor, GError **error)
{
    struct birth birth = {
        monitor, e->lock, e->options.inherit, e->options.death_signal,
        getpid()
    };
    g_auto(GStrv) environment = NULL;
    int err = open_output(e, error);
    int in, out;
    bool ok;

    if (err < 0) {
        return false;
    }
    /* Checkpoints are hundreds of MiB, and the guest waits for each fault. */
    environment = g_environ_setenv(g_get_environ(), "GLIBC_TUNABLES",
                                   "glibc.malloc.hugetlb=1", FALSE);
    in = open_standard(e->options.input);
    out = open_standard(e->options.output);
    ok = g_spawn_async_with_fds(e->folder, (char **)e->arguments->pdata,
                                environment,
                                G_SPAWN_DO_NOT_REAP_CHILD |
                                G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
                                set_up_child, &birth, &e->pid, in, out, err,
                                error);
    close(in);
    close(out);
    close(err);
    return ok;
}

/* Adds its last line, if the connection ended because it did. */
static void add_last_words(struct emulator *e, GError **error)
{
    g_autofree char *output = NULL;
    const char *line;

    if (!error || !*error ||
        !g_error_matches(*error, AGENT_ERROR,
                         AGENT_ERROR_CLOSED)) {
        return;
    }
    emulator_wait(e, 5000, NULL);
    if (!e->pid && WIFSIGNALED(e->status)) {
        g_clear_error(error);
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED,
                    "QEMU was ended by signal %d (%s)", WTERMSIG(e->status),
                    strsignal(WTERMSIG(e->status)));
        return;
    }
    output = emulator_output(e);
    g_strchomp(output);
    line = strrchr(output, '\n');
    line = line ? line + 1 : output;
    g_clear_error(error);
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED,
                *line ? "QEMU has ended: %s" : "QEMU has ended%s", line);
}

bool emulator_start(struct emulator *e, GError **error)
{
    int socks[2];
    bool ok;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0) {
        return agent_error_errno(error, "socketpair");
    }
    emulator_add(e, "-chardev");
    emulator_add(e, "socket,id=rr-monitor,fd=%d", socks[1]);
    emulator_add(e, "-mon");
    emulator_add(e, "chardev=rr-monitor,mode=control");
    g_ptr_array_add(e->arguments, NULL);
    ok = spawn(e, socks[1], error);
    close(socks[1]);
    if (!ok) {
        close(socks[0]);
        return false;
    }
    e->qmp = qmp_new(socks[0], START_TIMEOUT_MS, e->options.cancel_fd,
                     error);
    if (!e->qmp) {
        add_last_words(e, error);
        return false;
    }
    qmp_keep_events(e->qmp);
    return true;
}

void emulator_set_cancel(struct emulator *e, int cancel_fd)
{
    e->options.cancel_fd = cancel_fd;
}

struct qmp *emulator_qmp(struct emulator *e)
{
    return e->qmp;
}

JsonNode *emulator_execute(struct emulator *e, const char *command,
                           JsonObject *arguments, int fd, int timeout_ms,
                           GError **error)
{
    GError *local = NULL;
    JsonNode *node = qmp_execute(e->qmp, command, arguments, fd,
                                 timeout_ms, e->options.cancel_fd,
                                 &local);

    if (!node) {
        add_last_words(e, &local);
        g_propagate_error(error, local);
    }
    return node;
}

bool emulator_command(struct emulator *e, const char *command,
                      JsonObject *arguments, GError **error)
{
    g_autoptr(JsonNode) node = emulator_execute(e, command, arguments, -1,
                                                COMMAND_TIMEOUT_MS, error);

    return node;
}

char *emulator_hmp(struct emulator *e, const char *line, GError **error)
{
    g_autoptr(JsonNode) node = emulator_execute(
        e, "human-monitor-command",
        btrail_json_new("s:command-line", line, NULL), -1, COMMAND_TIMEOUT_MS,
        error);

    if (!node) {
        return NULL;
    }
    return JSON_NODE_HOLDS_VALUE(node) &&
           json_node_get_value_type(node) == G_TYPE_STRING ?
           json_node_dup_string(node) : g_strdup("");
}

char *emulator_event(struct emulator *e, int timeout_ms, GError **error)
{
    GError *local = NULL;
    char *name = qmp_next_event(e->qmp, timeout_ms,
                                e->options.cancel_fd, &local);

    if (!name) {
        add_last_words(e, &local);
        g_propagate_error(error, local);
    }
    return name;
}

bool emulator_icount(struct emulator *e, uint64_t *icount, GError **error)
{
    g_autoptr(JsonNode) node = emulator_execute(e, "query-replay", NULL, -1,
                                                COMMAND_TIMEOUT_MS, error);
    gint64 n = node && JSON_NODE_HOLDS_OBJECT(node) ?
               btrail_json_int(json_node_get_object(node), "icount", -1) : -1;

    if (node && n < 0) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                    "QEMU does not say how many instructions were executed");
    }
    *icount = n;
    return n >= 0;
}

const char *emulator_version(const struct emulator *e)
{
    return qmp_version(e->qmp);
}

char *emulator_output(const struct emulator *e)
{
    g_autofree char *path = emulator_path(e, "stderr");
    char *text = g_malloc0(MAX_OUTPUT + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size;

    if (fd >= 0) {
        size = lseek(fd, 0, SEEK_END);
        if (pread(fd, text, MAX_OUTPUT, MAX(0, size - MAX_OUTPUT)) < 0) {
            *text = 0;
        }
        close(fd);
    }
    return text;
}

uint64_t emulator_cpu_ns(const struct emulator *e)
{
    return e->pid ? clock_process_ns(e->pid) : 0;
}

bool emulator_wait(struct emulator *e, int timeout_ms, int *status)
{
    gint64 deadline = g_get_monotonic_time() + timeout_ms * 1000ll;

    while (e->pid) {
        pid_t got = waitpid(e->pid, &e->status, WNOHANG);

        if (got == e->pid || (got < 0 && errno == ECHILD)) {
            e->pid = 0;
        } else if (g_get_monotonic_time() >= deadline) {
            return false;
        } else {
            g_usleep(2000);
        }
    }
    if (status) {
        *status = e->status;
    }
    return true;
}

void emulator_free(struct emulator *e)
{
    if (!e) {
        return;
    }
    if (e->pid) {
        kill(e->pid, SIGKILL);
        emulator_wait(e, 60000, NULL);
    }
    qmp_free(e->qmp);
    private_folder_remove(e->folder, e->lock);
    g_free(e->folder);
    g_ptr_array_unref(e->arguments);
    g_free(e);
}
