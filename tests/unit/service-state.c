/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures that one process of the service leaves to the next: who continues
 * them, and when nobody does
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.h"
#include "service/completion.h"
#include "service/log.h"
#include "service/peer-process.h"
#include "service/service-state.h"
#include "trace-samples.h"
#include "util/json.h"

/* A service, which can end and begin again; @gone: a process that has ended */
struct fixture {
    char *scratch;
    struct config config;
    struct host host;
    struct folder *vm;
    struct service_state *s;
    char own[PROCESS_ID];
    char gone[PROCESS_ID];
    unsigned ids;
};

static void next_service(struct fixture *f)
{
    g_autoptr(GError) error = NULL;

    service_state_close(f->s);
    f->s = service_state_open(&f->host, &error);
    g_assert_no_error(error);
}

static void find_gone(char id[PROCESS_ID])
{
    pid_t child = fork();

    if (!child) {
        pause();
        _exit(0);
    }
    process_id(id, child);
    g_assert_cmpuint(strlen(id), >, 0);
    kill(child, SIGKILL);
    g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
}

static void set_up(struct fixture *f, gconstpointer data)
{
    static GSourceFuncs funcs;
    g_autofree char *traces = NULL, *vm = NULL;

    f->scratch = scratch_new();
    traces = g_build_filename(f->scratch, "traces", NULL);
    vm = g_build_filename(traces, "vm", NULL);
    f->config = (struct config) {
        .state = g_build_filename(f->scratch, "a", "state", NULL),
    };
    f->host = (struct host) {
        .config = &f->config, .folder = folder_open(traces, NULL),
        .changed = g_source_new(&funcs, sizeof(GSource)),
    };
    f->vm = folder_open(vm, NULL);
    process_id(f->own, getpid());
    find_gone(f->gone);
    next_service(f);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    service_state_close(f->s);
    folder_free(f->vm);
    folder_free(f->host.folder);
    g_source_unref(f->host.changed);
    g_free(f->config.state);
    scratch_remove(f->scratch);
}

/* A session "S" into S.btrail, of which there is a trace that was cut off */
static JsonObject *session(struct fixture *f, const char *name)
{
    g_autofree char *id = g_strdup_printf("%016x", ++f->ids);
    g_autofree char *file = g_strdup_printf("%s.btrail", name);
    g_autofree char *path = g_build_filename(f->vm->path, file, NULL);
    GStatBuf st;

    sample_write(path, 2);
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpint(truncate(path, st.st_size - 1), ==, 0);
    return btrail_json_new(
        "s:id", id, "o:command", btrail_json_new(
            "s:do", "start", "s:session", name, "s:file", file, NULL),
        "U:started", (gint64)1, "b:whole", true, "b:keeping", false, NULL);
}

/* A capture with sessions of these names, of a guest in folder "vm" */
static JsonObject *capture(struct fixture *f, const char *name,
                           const char *process, const char *sessions)
{
    g_auto(GStrv) names = g_strsplit(sessions, " ", 0);
    JsonArray *array = json_array_new();

    for (char **n = names; *n; n++) {
        json_array_add_object_element(array, session(f, *n));
    }
    return btrail_json_new("s:name", name, "s:folder", "vm", "s:process",
                           process, "a:sessions", array, NULL);
}

/* Saves that guests have these captures, which are taken; NULL ends them. */
static void save(struct fixture *f, JsonObject *c, ...)
{
    g_autoptr(GPtrArray) all = state_files_new();
    va_list args;

    va_start(args, c);
    for (; c; c = va_arg(args, JsonObject *)) {
        g_ptr_array_add(all, c);
    }
    va_end(args);
    service_state_save(f->s, all);
}

static int by_name(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of captures with their sessions, sorted: "a(s t) b(u)" */
static char *names_of(GPtrArray *captures)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < captures->len; i++) {
        JsonObject *c = g_ptr_array_index(captures, i);
        JsonArray *sessions = btrail_json_array(c, "sessions");
        g_autoptr(GPtrArray) each = g_ptr_array_new();
        g_autofree char *joined = NULL;

        for (unsigned k = 0; k < json_array_get_length(sessions); k++) {
            g_ptr_array_add(each, (gpointer)btrail_json_string(
                btrail_json_object(json_array_get_object_element(sessions, k),
                                   "command"), "session"));
        }
        g_ptr_array_sort(each, by_name);
        g_ptr_array_add(each, NULL);
        joined = g_strjoinv(" ", (char **)each->pdata);
        g_ptr_array_add(names, g_strdup_printf(
            "%s(%s)", btrail_json_string(c, "name"), joined));
    }
    g_ptr_array_sort(names, by_name);
    for (unsigned i = 0; i < names->len; i++) {
        g_string_append_printf(text, "%s%s", i ? " " : "",
                               (char *)names->pdata[i]);
    }
    return g_string_free(text, FALSE);
}

static void check_left(struct fixture *f, const char *want)
{
    g_autofree char *text = names_of(f->s->left);

    g_assert_cmpstr(text, ==, want);
}

/* What nobody continues; it is not done until the main loop runs. */
static void check_over(struct fixture *f, const char *want)
{
    g_autoptr(GPtrArray) over = state_files_new();
    g_autofree char *text = NULL;

    completions_save(f->s->completions, over);
    text = names_of(over);
    g_assert_cmpstr(text, ==, want);
}

static void wait_done(struct fixture *f)
{
    while (completions_busy(f->s->completions)) {
        g_main_context_iteration(NULL, TRUE);
    }
    check_over(f, "");
}

/* One process at a time has the state. */
static void test_lock(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(g_file_test(f->config.state, G_FILE_TEST_IS_DIR));
    check_left(f, "");
    g_assert_cmpuint(f->s->timeout, ==, 0);
    g_assert_null(service_state_open(&f->host, &error));
    g_assert_nonnull(error);
    next_service(f);
}

/* What the next process finds, and who it is that may continue it */
static void test_find(struct fixture *f, gconstpointer data)
{
    g_autofree char *path = g_build_filename(f->scratch, "traces", "other",
                                             NULL);
    struct folder *other = folder_open(path, NULL);
    JsonObject *c;

    save(f, capture(f, "one", f->own, "s t"), capture(f, "two", f->own, "u"),
         capture(f, "none", "", "v"), NULL);
    check_left(f, "");
    next_service(f);
    check_left(f, "none(v) one(s t) two(u)");
    g_assert_cmpuint(f->s->timeout, !=, 0);
    c = service_state_find(f->s, f->vm, f->own, "two");
    g_assert_cmpstr(btrail_json_string(c, "name"), ==, "two");
    g_assert_null(service_state_find(f->s, f->vm, f->own, "three"));
    g_assert_null(service_state_find(f->s, f->vm, f->own, NULL));
    g_assert_null(service_state_find(f->s, f->vm, f->gone, "two"));
    g_assert_null(service_state_find(f->s, other, f->own, "two"));
    /* One of which nobody knows which process it is, is nobody's. */
    g_assert_null(service_state_find(f->s, f->vm, "", "none"));

    g_assert_cmpstr(service_state_writing(f->s, f->vm, "t.btrail"), ==, "t");
    g_assert_cmpstr(service_state_writing(f->s, f->vm, "u.btrail"), ==, "u");
    g_assert_null(service_state_writing(f->s, f->vm, "w.btrail"));
    g_assert_null(service_state_writing(f->s, other, "t.btrail"));

    service_state_take(f->s, "three");
    service_state_take(f->s, "one");
    check_left(f, "none(v) two(u)");
    g_assert_null(service_state_writing(f->s, f->vm, "t.btrail"));
    service_state_take(f->s, "one");
    check_left(f, "none(v) two(u)");
    folder_free(other);
}

/* What is left stays so, until a guest has it; then it is that guest's. */
static void test_save(struct fixture *f, gconstpointer data)
{
    save(f, capture(f, "one", f->own, "s"), capture(f, "two", f->own, "t"),
         NULL);
    next_service(f);
    save(f, NULL);
    next_service(f);
    check_left(f, "one(s) two(t)");
    save(f, capture(f, "one", f->own, "u"), NULL);
    check_left(f, "two(t)");
    next_service(f);
    check_left(f, "one(u) two(t)");
    service_state_take(f->s, "two");
    save(f, NULL);
    next_service(f);
    check_left(f, "one(u)");
}

/* What a process that has connected does not have is over. */
static void test_forget(struct fixture *f, gconstpointer data)
{
    save(f, capture(f, "one", f->own, "s"), capture(f, "two", f->own, "t"),
         capture(f, "none", "", "v"), NULL);
    next_service(f);
    service_state_forget(f->s, f->own, "two");
    check_left(f, "none(v) two(t)");
    check_over(f, "one(s)");
    /* A process that is not known has no word on any. */
    service_state_forget(f->s, "", NULL);
    service_state_forget(f->s, f->gone, NULL);
    check_left(f, "none(v) two(t)");
    /* Until it is saved that this is done, the next process does it, too. */
    save(f, NULL);
    wait_done(f);
    next_service(f);
    check_left(f, "none(v) two(t)");
    check_over(f, "one(s)");
    service_state_forget(f->s, f->own, NULL);
    check_left(f, "none(v)");
    check_over(f, "one(s) two(t)");
    wait_done(f);
    save(f, NULL);
    next_service(f);
    check_left(f, "none(v)");
    check_over(f, "");
}

/* Of processes that are gone nobody continues anything, whoever connects. */
static void test_gone(struct fixture *f, gconstpointer data)
{
    save(f, capture(f, "one", f->own, "s"), capture(f, "two", f->gone, "t"),
         capture(f, "three", f->gone, "u"), NULL);
    next_service(f);
    /* A guest looks at it. */
    json_object_set_boolean_member(
        service_state_find(f->s, f->vm, f->gone, "three"), "inspected", TRUE);
    service_state_forget(f->s, "", NULL);
    check_left(f, "one(s) three(u)");
    check_over(f, "two(t)");
    wait_done(f);
}

/* Devices had the time to connect: those of unknown processes are over. */
static void test_timed_out(struct fixture *f, gconstpointer data)
{
    save(f, capture(f, "one", f->own, "s"), capture(f, "none", "", "v"), NULL);
    next_service(f);
    g_assert_cmpint(service_state_timed_out(f->s), ==, G_SOURCE_CONTINUE);
    check_left(f, "one(s)");
    check_over(f, "none(v)");
    service_state_take(f->s, "one");
    g_source_remove(f->s->timeout);
    g_assert_cmpint(service_state_timed_out(f->s), ==, G_SOURCE_REMOVE);
    g_assert_cmpuint(f->s->timeout, ==, 0);
    wait_done(f);
}

/* A process that ends leaves what its guests have. */
static void test_leave(struct fixture *f, gconstpointer data)
{
    g_autoptr(GPtrArray) all = state_files_new();

    save(f, capture(f, "one", f->own, "s"), NULL);
    next_service(f);
    g_ptr_array_add(all, capture(f, "one", f->own, "t"));
    g_ptr_array_add(all, capture(f, "two", f->own, "u"));
    service_state_leave(f->s, all);
    g_assert_cmpuint(f->s->timeout, ==, 0);
    check_left(f, "one(t) two(u)");
    save(f, NULL);
    next_service(f);
    check_left(f, "one(t) two(u)");
}

/* What was to be completed is, by the next process, but for what continues. */
static void test_over(struct fixture *f, gconstpointer data)
{
    JsonObject *c = capture(f, "one", f->own, "s t u"), *rest, *done;

    for (unsigned i = 0; i < 2; i++) {
        json_object_set_boolean_member(json_array_get_object_element(
            btrail_json_array(c, "sessions"), i), "over", TRUE);
    }
    done = capture(f, "two", f->own, "v");
    json_object_set_boolean_member(json_array_get_object_element(
        btrail_json_array(done, "sessions"), 0), "over", TRUE);
    /* It continues the trace of "t". */
    rest = capture(f, "three", f->own, "t");
    save(f, c, done, rest, NULL);
    next_service(f);
    check_left(f, "one(u) three(t)");
    {
        g_autoptr(GPtrArray) over = state_files_new();

        completions_save(f->s->completions, over);
        g_assert_cmpuint(over->len, >, 0);
        for (unsigned i = 0; i < over->len; i++) {
            JsonArray *sessions = btrail_json_array(
                g_ptr_array_index(over, i), "sessions");

            for (unsigned k = 0; k < json_array_get_length(sessions); k++) {
                JsonObject *s = json_array_get_object_element(sessions, k);
                const char *name = btrail_json_string(
                    btrail_json_object(s, "command"), "session");

                g_assert_cmpint(json_object_has_member(s, "parts"), ==,
                                !strcmp(name, "t"));
                g_assert_cmpstr(name, !=, "u");
            }
        }
    }
    while (completions_busy(f->s->completions)) {
        g_main_context_iteration(NULL, TRUE);
    }
}

static void add(const char *path,
                void (*test)(struct fixture *f, gconstpointer data))
{
    g_test_add(path, struct fixture, NULL, set_up, test, tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    add("/service-state/lock", test_lock);
    add("/service-state/find", test_find);
    add("/service-state/save", test_save);
    add("/service-state/forget", test_forget);
    add("/service-state/gone", test_gone);
    add("/service-state/timed-out", test_timed_out);
    add("/service-state/leave", test_leave);
    add("/service-state/over", test_over);
    return g_test_run();
}
