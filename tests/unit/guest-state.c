/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-state.c: a QEMU that writes into a pipe, and what can go wrong
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "replay/guest-state.h"
#include "scratch.h"
#include "util/json.h"
#include "util/whole-io.h"

#define SIZE    (5 << 20)

/* A QEMU behind another program */
struct fake {
    const char *status;         /* of the migration */
    size_t size;                /* what it writes */
    int fd;                     /* what was passed, or -1 */
    int error;                  /* errno of writing */
    unsigned finishing;         /* how often it is not finished yet */
    GString *commands;
};

static void write_state(struct fake *f)
{
    g_autofree char *bytes = g_malloc(f->size);

    for (size_t i = 0; i < f->size; i++) {
        bytes[i] = i * 7 >> 3;
    }
    f->error = whole_write(f->fd, bytes, f->size);
    close(f->fd);
    f->fd = -1;
}

static JsonNode *execute(void *opaque, const char *command,
                         JsonObject *arguments, int fd, GError **error)
{
    struct fake *f = opaque;
    JsonNode *node = json_node_alloc();
    JsonObject *o = json_object_new();

    g_string_append_printf(f->commands, "%s ", command);
    if (!strcmp(command, "getfd")) {
        f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    } else if (!strcmp(command, "migrate")) {
        g_assert_cmpstr(btrail_json_string(arguments, "uri"), ==,
                        "fd:backtrail-state");
        write_state(f);
    } else if (!strcmp(command, "query-migrate")) {
        json_object_set_string_member(o, "status", f->status);
    } else if (!strcmp(command, "query-status")) {
        json_object_set_string_member(o, "status", f->finishing ?
                                      "finish-migrate" : "postmigrate");
        f->finishing -= !!f->finishing;
    } else if (!strcmp(command, "query-migrate-parameters")) {
        json_object_set_int_member(o, "max-bandwidth", 1000);
    }
    if (arguments) {
        json_object_unref(arguments);
    }
    json_node_init_object(node, o);
    json_object_unref(o);
    return node;
}

static bool save(struct fake *f, const char *path, GError **error)
{
    struct qmp *qmp = qmp_through(execute, f);
    bool ok;

    f->fd = -1;
    f->commands = g_string_new(NULL);
    ok = guest_state_pipe(qmp, path, -1, error);
    qmp_free(qmp);
    return ok;
}

struct fixture {
    char *folder, *path;
};

static void set_up(struct fixture *t, gconstpointer data)
{
    t->folder = scratch_new();
    t->path = g_build_filename(t->folder, "state", NULL);
}

static void tear_down(struct fixture *t, gconstpointer data)
{
    scratch_remove(t->folder);
    g_free(t->path);
}

static void test_whole(struct fixture *t, gconstpointer data)
{
    struct fake f = { "completed", SIZE, .finishing = 2 };
    g_autoptr(GError) error = NULL;
    g_autofree char *got = NULL;
    gsize size;

    g_assert_true(save(&f, t->path, &error));
    g_assert_no_error(error);
    g_assert_cmpstr(f.commands->str, ==,
                    "getfd query-migrate-parameters migrate-set-parameters "
                    "migrate query-migrate query-status query-status "
                    "query-status migrate-set-parameters ");
    g_assert_true(g_file_get_contents(t->path, &got, &size, NULL));
    g_assert_cmpuint(size, ==, SIZE);
    for (size_t i = 0; i < size; i++) {
        g_assert_cmpint(got[i], ==, (char)(i * 7 >> 3));
    }
    g_string_free(f.commands, TRUE);
}

static void test_failed(struct fixture *t, gconstpointer data)
{
    struct fake f = { "failed", 100 };
    g_autoptr(GError) error = NULL;

    g_assert_false(save(&f, t->path, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_nonnull(strstr(f.commands->str, "closefd"));
    g_string_free(f.commands, TRUE);
}

/* A file that cannot be written ends QEMU's writing, too, and is the reason. */
static void test_full(struct fixture *t, gconstpointer data)
{
    struct fake f = { "failed", SIZE };
    struct rlimit before, limit;
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    limit = before;
    limit.rlim_cur = 1 << 20;
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    g_assert_false(save(&f, t->path, &error));
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_cmpint(f.error, ==, EPIPE);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, t->path));
    g_string_free(f.commands, TRUE);
}

static void test_exists(struct fixture *t, gconstpointer data)
{
    struct fake f = { "completed", 100 };
    g_autoptr(GError) error = NULL;

    g_assert_true(g_file_set_contents(t->path, "x", 1, NULL));
    g_assert_false(save(&f, t->path, &error));
    g_assert_nonnull(strstr(error->message, t->path));
    g_assert_cmpstr(f.commands->str, ==, "");
    g_string_free(f.commands, TRUE);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/guest-state/" name, struct fixture, NULL, set_up, function, \
               tear_down)
    ADD("whole", test_whole);
    ADD("failed", test_failed);
    ADD("full", test_full);
    ADD("exists", test_exists);
    return g_test_run();
}
