/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completing what nobody continues: the state has it until it is done
 */

#include <glib/gstdio.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "scratch.h"
#include "service/completion.h"
#include "trace-samples.h"
#include "util/json.h"

struct fixture {
    char *scratch;
    char *path;                 /* of a trace that was cut off */
    struct folder *all;
    struct completions *c;
    unsigned changes;
};

static void changed(void *opaque)
{
    struct fixture *f = opaque;

    f->changes++;
}

static void set_up(struct fixture *f, gconstpointer data)
{
    g_autofree char *folder = NULL;
    GStatBuf st;

    f->scratch = scratch_new();
    folder = g_build_filename(f->scratch, "vm", NULL);
    f->path = g_build_filename(folder, "s.btrail", NULL);
    f->all = folder_open(f->scratch, NULL);
    g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
    sample_write(f->path, 2);
    g_assert_cmpint(g_stat(f->path, &st), ==, 0);
    g_assert_cmpint(truncate(f->path, st.st_size - 1), ==, 0);
    f->c = completions_new(f->all, changed, f);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    completions_free(f->c);
    folder_free(f->all);
    scratch_remove(f->scratch);
    g_free(f->path);
}

static bool is_whole(const char *path)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_trace_status(trace, &status), ==, 0);
    btrail_trace_close(trace);
    return status.complete;
}

static JsonObject *capture(const char *folder)
{
    JsonArray *sessions = json_array_new();

    json_array_add_object_element(sessions, btrail_json_new(
        "s:id", "0123456789abcdef", "o:command", btrail_json_new(
            "s:do", "start", "s:session", "s", "s:file", "s.btrail", NULL),
        NULL));
    return btrail_json_new("s:name", "backtraild-0", "s:folder", folder,
                           "a:sessions", sessions, NULL);
}

static void add(struct fixture *f, const char *folder)
{
    g_autoptr(JsonObject) c = capture(folder);

    completions_add_all(f->c, c);
}

/* How many captures the state has; they have the session, and say what it is */
static unsigned saved(struct fixture *f)
{
    g_autoptr(GPtrArray) captures = state_files_new();

    completions_save(f->c, captures);
    for (unsigned i = 0; i < captures->len; i++) {
        JsonObject *c = g_ptr_array_index(captures, i);
        JsonObject *s = json_array_get_object_element(
            btrail_json_array(c, "sessions"), 0);

        g_assert_cmpstr(btrail_json_string(c, "folder"), ==, "vm");
        g_assert_cmpstr(btrail_json_string(s, "id"), ==, "0123456789abcdef");
        g_assert_true(json_object_get_boolean_member(s, "over"));
    }
    return captures->len;
}

static void wait_done(struct fixture *f)
{
    while (completions_busy(f->c)) {
        g_main_context_iteration(NULL, TRUE);
    }
}

static void test_done(struct fixture *f, gconstpointer data)
{
    add(f, "vm");
    g_assert_true(completions_busy(f->c));
    g_assert_cmpuint(saved(f), ==, 1);
    g_assert_cmpuint(f->changes, ==, 1);
    wait_done(f);
    g_assert_cmpuint(f->changes, ==, 2);
    g_assert_cmpuint(saved(f), ==, 0);
    g_assert_true(is_whole(f->path));
    /* A folder that is gone has nothing. */
    add(f, "other");
    g_assert_false(completions_busy(f->c));
    g_assert_cmpuint(saved(f), ==, 0);
}

/* What was not possible is up to the next process. */
static void test_failed(struct fixture *f, gconstpointer data)
{
    int fd = open(f->path, O_RDWR | O_CLOEXEC);

    g_assert_cmpint(flock(fd, LOCK_EX | LOCK_NB), ==, 0);
    add(f, "vm");
    wait_done(f);
    g_assert_cmpuint(saved(f), ==, 1);
    g_assert_false(is_whole(f->path));
    close(fd);
}

/* Nobody waits for it any more. */
static void test_freed(struct fixture *f, gconstpointer data)
{
    add(f, "vm");
    completions_free(f->c);
    while (!is_whole(f->path)) {
        g_usleep(1000);
    }
    g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(f->changes, ==, 1);
    f->c = completions_new(f->all, changed, f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/completion/done", struct fixture, NULL, set_up, test_done,
               tear_down);
    g_test_add("/completion/failed", struct fixture, NULL, set_up, test_failed,
               tear_down);
    g_test_add("/completion/freed", struct fixture, NULL, set_up, test_freed,
               tear_down);
    return g_test_run();
}
