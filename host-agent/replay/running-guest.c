/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs: see running-guest.h
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replay/guest-state.h"
#include "replay/machine.h"
#include "replay/running-arguments.h"
#include "replay/running-guest.h"
#include "util/clock.h"
#include "util/json.h"
#include "util/unix-socket.h"

#define CONNECT_MS      10000
#define COMMAND_MS      60000
/* Longer than any command line of QEMU */
#define MAX_ARGUMENTS   (1u << 20)

#define refuse(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

struct running_guest {
    struct qmp *qmp;
    int cancel_fd;
    char *program;
    char **arguments;
    bool confined;              /* it may write to no file of ours */
    bool ran;                   /* when it was stopped */
    bool stopped;               /* by us */
    uint64_t stopped_ns, resumed_ns;
};

/* A command; only one that may take long can be cancelled. */
static JsonNode *execute(struct running_guest *g, const char *command,
                         JsonObject *arguments, GError **error)
{
    return qmp_execute(g->qmp, command, arguments, -1, COMMAND_MS, -1,
                       error);
}

static bool command(struct running_guest *g, const char *name,
                    JsonObject *arguments, GError **error)
{
    g_autoptr(JsonNode) node = execute(g, name, arguments, error);

    return node;
}

/* The process that listens at a socket; 0 after an error */
static pid_t peer(int sock, GError **error)
{
    struct ucred of;
    socklen_t size = sizeof(of);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &of, &size) || !of.pid) {
        agent_error_errno(error, "SO_PEERCRED");
        return 0;
    }
    return of.pid;
}

static char *read_link(pid_t pid, const char *name, GError **error)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/%s", (int)pid, name);

    return g_file_read_link(path, error);
}

/* The words of a process; NULL after an error */
static char **read_words(pid_t pid, GError **error)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/cmdline", (int)pid);
    g_autofree char *text = NULL;
    g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
    gsize size;

    if (!g_file_get_contents(path, &text, &size, error)) {
        return NULL;
    }
    if (!size || size > MAX_ARGUMENTS || text[size - 1]) {
        refuse(error, "%s is not the command line of a QEMU", path);
        return NULL;
    }
    for (gsize at = 0; at < size; at += strlen(text + at) + 1) {
        g_ptr_array_add(words, g_strdup(text + at));
    }
    g_ptr_array_add(words, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&words), FALSE);
}

/* What is run, and with what */
static bool find_process(struct running_guest *g, pid_t pid, GError **error)
{
    g_auto(GStrv) words = read_words(pid, error);
    g_autofree char *folder = words ? read_link(pid, "cwd", error) : NULL;

    g->program = folder ? read_link(pid, "exe", error) : NULL;
    if (!g->program) {
        return false;
    }
    if (access(g->program, X_OK)) {
        return refuse(error, "%s: the program of this guest is not there any "
                      "more; start the guest anew", g->program);
    }
    g->arguments = running_arguments_new(words + 1, folder, error);
    return g->arguments;
}

/* Another QEMU's state lacks what a replay requires. */
static bool check_build(struct running_guest *g, GError **error)
{
    g_autoptr(JsonNode) node = execute(g, "query-commands", NULL, error);
    JsonArray *list = node && JSON_NODE_HOLDS_ARRAY(node) ?
                      json_node_get_array(node) : NULL;

    for (unsigned i = 0; list && i < json_array_get_length(list); i++) {
        JsonNode *item = json_array_get_element(list, i);

        if (JSON_NODE_HOLDS_OBJECT(item) &&
            !g_strcmp0(btrail_json_string(json_node_get_object(item), "name"),
                       "replay-settle")) {
            return true;
        }
    }
    return node && refuse(error, "%s, which runs this guest, does not have "
                          "Backtrail's patches; start it anew in one that has",
                          g->program);
}

static bool check_accelerator(struct running_guest *g, GError **error)
{
    g_autoptr(JsonNode) node = execute(g, "query-kvm", NULL, error);

    if (!node) {
        return false;
    }
    if (JSON_NODE_HOLDS_OBJECT(node) &&
        btrail_json_is_true(json_node_get_object(node), "enabled")) {
        return refuse(error, "this guest runs under KVM, and TCG, which can be "
                      "replayed, does not continue what has run there: start "
                      "it with -accel tcg, or record it from power-on");
    }
    return true;
}

static bool check(struct running_guest *g, GError **error)
{
    return check_build(g, error) && check_accelerator(g, error);
}

struct running_guest *running_guest_new(struct qmp *qmp,
                                        const char *program, char **arguments,
                                        int cancel_fd, GError **error)
{
    struct running_guest *g = g_new0(struct running_guest, 1);

    g->qmp = qmp;
    g->program = g_strdup(program);
    g->arguments = arguments;
    g->cancel_fd = cancel_fd;
    g->confined = true;
    if (!check(g, error)) {
        running_guest_free(g, false);
        return NULL;
    }
    return g;
}

struct running_guest *running_guest_open(const char *socket, int cancel_fd,
                                         GError **error)
{
    struct running_guest *g = g_new0(struct running_guest, 1);
    int sock = unix_connect(socket, error);
    pid_t pid = sock < 0 ? 0 : peer(sock, error);

    g->cancel_fd = cancel_fd;
    if (sock >= 0) {
        g->qmp = qmp_new(sock, CONNECT_MS, cancel_fd, error);
    }
    if (!pid || !g->qmp || !find_process(g, pid, error) ||
        !check(g, error)) {
        running_guest_free(g, false);
        return NULL;
    }
    return g;
}

const char *running_guest_program(const struct running_guest *g)
{
    return g->program;
}

char *const *running_guest_arguments(const struct running_guest *g)
{
    return g->arguments;
}

static bool is_copied(const char *image, const GPtrArray *files)
{
    g_autofree char *real = realpath(image, NULL);

    for (unsigned i = 0; real && i < files->len; i++) {
        const struct machine_file *f = g_ptr_array_index(files, i);
        g_autofree char *other = realpath(f->source, NULL);

        if (!g_strcmp0(real, other)) {
            return true;
        }
    }
    return false;
}

bool running_guest_check_images(struct running_guest *g,
                                const GPtrArray *files, GError **error)
{
    g_autoptr(JsonNode) node = execute(g, "query-block", NULL, error);
    JsonArray *list = node && JSON_NODE_HOLDS_ARRAY(node) ?
                      json_node_get_array(node) : NULL;

    for (unsigned i = 0; list && i < json_array_get_length(list); i++) {
        JsonNode *item = json_array_get_element(list, i);
        JsonObject *o = JSON_NODE_HOLDS_OBJECT(item) ?
                        json_node_get_object(item) : NULL;
        JsonObject *medium = o ? btrail_json_object(o, "inserted") : NULL;
        const char *image = medium ? btrail_json_string(medium, "file") : NULL;

        if (image && !is_copied(image, files)) {
            return refuse(error, "%s is a disk of this guest by now, and was "
                          "not when it was started; record it from power-on",
                          image);
        }
    }
    return node;
}

static bool stop(struct running_guest *g, GError **error)
{
    g_autoptr(JsonNode) node = execute(g, "query-status", NULL, error);

    g->ran = node && JSON_NODE_HOLDS_OBJECT(node) &&
             btrail_json_is_true(json_node_get_object(node), "running");
    g->stopped_ns = clock_ns();
    g->stopped = node && command(g, "stop", NULL, error);
    return g->stopped;
}

bool running_guest_save(struct running_guest *g, const char *path,
                        GError **error)
{
    return stop(g, error) &&
           (g->confined ? guest_state_pipe : guest_state_save)(
               g->qmp, path, g->cancel_fd, error);
}

bool running_guest_resume(struct running_guest *g, GError **error)
{
    if (g->stopped && g->ran && !command(g, "cont", NULL, error)) {
        g_prefix_error(error, "the guest that was saved does not continue: ");
        return false;
    }
    if (g->stopped) {
        g->resumed_ns = clock_ns();
    }
    g->stopped = false;
    return true;
}

double running_guest_seconds(const struct running_guest *g)
{
    return (g->resumed_ns - g->stopped_ns) / 1e9;
}

void running_guest_free(struct running_guest *g, bool resume)
{
    if (g) {
        if (resume) {
            running_guest_resume(g, NULL);
        }
        qmp_free(g->qmp);
        g_free(g->program);
        g_strfreev(g->arguments);
        g_free(g);
    }
}
