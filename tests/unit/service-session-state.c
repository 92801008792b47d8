/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is said of a session: to clients, and to the next process.  Most cases
 * describe one that the test has put together; in others the test is the
 * capture of a real one.
 */

#include <glib/gstdio.h>
#include <string.h>

#include "drain/session-feed.h"
#include "fake-device.h"
#include "service/log.h"
#include "service/state.h"
#include "session-scene.h"

/* 2023-11-14, 22:13:20 UTC, in seconds since 1970 */
#define STARTED     G_GINT64_CONSTANT(1700000000)
#define STARTED_TEXT "2023-11-14T22:13:20Z"

/*
 * A session without files or threads.  It is of another process, so that it has
 * an id and a time that the test knows.
 */
static void describe(struct service_session *s, const char *more)
{
    static const struct folder vm = { .path = (char *)"/traces/vm" };

    *s = (struct service_session) {
        .options.folder = &vm,
        .command = session_scene_command(more),
        .id = (char *)"0123456789abcdef",
        .started = STARTED * 1000000,
        .dumping = g_ptr_array_new(),
    };
}

static void forget(struct service_session *s)
{
    command_free(s->command);
    g_ptr_array_unref(s->dumping);
    g_clear_pointer(&s->not_found, json_array_unref);
}

/* A member, as JSON; NULL if it is not there */
static char *member(JsonObject *json, const char *name)
{
    JsonNode *node = json_object_get_member(json, name);

    return node ? json_to_string(node, FALSE) : NULL;
}

/* Is a member of an object this JSON?  NULL if it must not be there. */
#define assert_member(json, name, text)             \
    do {                                            \
        g_autofree char *got = member(json, name);  \
                                                    \
        g_assert_cmpstr(got, ==, text);             \
    } while (0)

#define assert_status(s, name, text)                                \
    do {                                                            \
        g_autoptr(JsonObject) shown = service_session_status(s);    \
                                                                    \
        assert_member(shown, name, text);                           \
    } while (0)

#define assert_saved(s, name, text)                             \
    do {                                                        \
        g_autoptr(JsonObject) saved = service_session_save(s);  \
                                                                \
        g_assert_nonnull(saved);                                \
        assert_member(saved, name, text);                       \
    } while (0)

/* For clients, it is ending until the trace is complete. */
static void test_words(void)
{
    static const char *const words[] = {
        [SERVICE_SESSION_STARTING] = "\"starting\"",
        [SERVICE_SESSION_ACTIVE] = "\"active\"",
        [SERVICE_SESSION_ENDING] = "\"ending\"",
        [SERVICE_SESSION_OVER] = "\"ending\"",
        [SERVICE_SESSION_FINISHING] = "\"ending\"",
        [SERVICE_SESSION_ENDED] = "\"ended\"",
        [SERVICE_SESSION_FAILED] = "\"failed\"",
    };
    struct service_session s;

    describe(&s, "");
    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        s.state = i;
        assert_status(&s, "state", words[i]);
    }
    forget(&s);
}

/* What has a default is there; what the client has left out is not. */
static void test_defaults(void)
{
    static const char *const missing[] = {
        "owner", "vcpus", "cr3", "processes", "size", "duration", "split",
        "triggers", "not-found", "ended", "why",
    };
    struct service_session s;

    describe(&s, "");
    assert_status(&s, "session", "\"s\"");
    assert_status(&s, "file", "\"f.btrail\"");
    assert_status(&s, "folder", "\"/traces/vm\"");
    assert_status(&s, "mode", "\"continuous\"");
    assert_status(&s, "privilege", "\"all\"");
    assert_status(&s, "overflow", "\"pause\"");
    assert_status(&s, "started", "\"" STARTED_TEXT "\"");
    for (unsigned i = 0; i < G_N_ELEMENTS(missing); i++) {
        assert_status(&s, missing[i], NULL);
    }
    forget(&s);
}

/* What the client has requested is shown as it came, and nothing else of it. */
static void test_requested(void)
{
    struct service_session s;

    describe(&s, ",\"owner\":\"me\",\"vcpus\":[3,1,1],"
             "\"cr3\":[\"0x2000\",4096],\"processes\":[\"sh\",12],"
             "\"privilege\":\"user\",\"mode\":\"last\","
             "\"size\":{\"seconds\":5},\"overflow\":\"drop\","
             "\"duration\":2.5");
    assert_status(&s, "owner", "\"me\"");
    assert_status(&s, "vcpus", "[3,1,1]");
    assert_status(&s, "cr3", "[\"0x2000\",4096]");
    assert_status(&s, "processes", "[\"sh\",12]");
    assert_status(&s, "privilege", "\"user\"");
    assert_status(&s, "mode", "\"last\"");
    assert_status(&s, "size", "{\"seconds\":5}");
    assert_status(&s, "overflow", "\"drop\"");
    assert_status(&s, "duration", "2.5");
    assert_status(&s, "do", NULL);
    assert_status(&s, "names", NULL);
    forget(&s);
    describe(&s, ",\"split\":1048576,\"names\":\"off\"");
    assert_status(&s, "split", "1048576");
    assert_status(&s, "names", NULL);
    forget(&s);
}

/*
 * What the processes before have kept counts, too.  Of what they have filtered
 * and used nothing is known.
 */
static void test_sums(void)
{
    struct service_session s;

    describe(&s, "");
    s.past = (struct session_progress) {
        .records = 1, .filtered = 2, .bytes = 4, .record_bytes = 8,
        .lost = 16, .cpu_ns = 32,
    };
    s.progress = (struct session_progress) {
        .records = 100, .filtered = 200, .bytes = 400, .record_bytes = 800,
        .lost = 1600, .cpu_ns = 3200,
    };
    assert_status(&s, "records", "101");
    assert_status(&s, "filtered", "200");
    assert_status(&s, "bytes", "404");
    assert_status(&s, "record-bytes", "808");
    assert_status(&s, "lost", "1616");
    assert_status(&s, "cpu-ns", "3200");
    g_assert_cmpuint(service_session_bytes(&s), ==, 404);
    forget(&s);
}

/* It begins when it is first known, and ends with the session. */
static void test_waited(void)
{
    struct capture_progress p = { .paused_ns = 1000, .limited_ns = 50 };
    struct service_session s;

    describe(&s, "");
    s.state = SERVICE_SESSION_ACTIVE;
    service_session_waited(&s, &p);
    assert_status(&s, "paused-ns", "0");
    assert_status(&s, "limited-ns", "0");
    p = (struct capture_progress) { .paused_ns = 1003, .limited_ns = 57 };
    service_session_waited(&s, &p);
    assert_status(&s, "paused-ns", "3");
    assert_status(&s, "limited-ns", "7");
    /* A producer that counts back has not made the guest wait for years. */
    p = (struct capture_progress) { .paused_ns = 10, .limited_ns = 10 };
    service_session_waited(&s, &p);
    assert_status(&s, "paused-ns", "0");
    assert_status(&s, "limited-ns", "0");
    s.state = SERVICE_SESSION_FINISHING;
    p = (struct capture_progress) { .paused_ns = 1100, .limited_ns = 150 };
    service_session_waited(&s, &p);
    for (unsigned i = SERVICE_SESSION_ENDED; i <= SERVICE_SESSION_FAILED;
         i++) {
        s.state = i;
        p.paused_ns++;
        p.limited_ns++;
        service_session_waited(&s, &p);
        assert_status(&s, "paused-ns", "100");
        assert_status(&s, "limited-ns", "100");
    }
    forget(&s);
}

static void test_ended(void)
{
    struct service_session s;

    describe(&s, "");
    s.state = SERVICE_SESSION_FAILED;
    s.ended = (STARTED + 61) * 1000000;
    s.why = (char *)"not today";
    assert_status(&s, "ended", "\"2023-11-14T22:14:21Z\"");
    assert_status(&s, "why", "\"not today\"");
    forget(&s);
}

/* Each as it was requested.  Once nothing acts any more, no places are shown. */
static void test_triggers(void)
{
    struct service_session s;

    describe(&s, ",\"triggers\":["
             "{\"at\":\"kernel:panic\",\"do\":\"dump\",\"hits\":7},"
             "{\"at\":\"sh:0x1000\",\"do\":\"stop\",\"longer\":0.25}]");
    s.state = SERVICE_SESSION_ENDED;
    assert_status(&s, "triggers",
                  "[{\"at\":\"kernel:panic\",\"do\":\"dump\",\"hits\":7},"
                  "{\"at\":\"sh:0x1000\",\"do\":\"stop\",\"hits\":1,"
                  "\"longer\":0.25}]");
    forget(&s);
}

/* Who has ended, or was handed over, has nothing for the next process. */
static void test_not_saved(void)
{
    struct service_session s;

    describe(&s, "");
    s.state = SERVICE_SESSION_ENDED;
    g_assert_null(service_session_save(&s));
    s.state = SERVICE_SESSION_FAILED;
    g_assert_null(service_session_save(&s));
    s.state = SERVICE_SESSION_FINISHING;
    assert_saved(&s, "id", "\"0123456789abcdef\"");
    s.state = SERVICE_SESSION_ACTIVE;
    s.fate = SERVICE_SESSION_DETACHED;
    g_assert_null(service_session_save(&s));
    s.fate = SERVICE_SESSION_SPOILT;
    assert_saved(&s, "id", "\"0123456789abcdef\"");
    forget(&s);
}

/*
 * Nobody continues one that was to end, nor one that a client does not know to
 * have begun.
 */
static void test_over(void)
{
    static const struct {
        enum service_session_state state;
        bool resumed;
        const char *over;
    } cases[] = {
        { SERVICE_SESSION_STARTING, false, "true" },
        { SERVICE_SESSION_STARTING, true, "false" },
        { SERVICE_SESSION_ACTIVE, false, "false" },
        { SERVICE_SESSION_ACTIVE, true, "false" },
        { SERVICE_SESSION_ENDING, false, "true" },
        { SERVICE_SESSION_ENDING, true, "true" },
        { SERVICE_SESSION_OVER, true, "true" },
        { SERVICE_SESSION_FINISHING, true, "true" },
    };
    struct service_session s;

    describe(&s, "");
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        s.state = cases[i].state;
        s.resumed = cases[i].resumed;
        assert_saved(&s, "over", cases[i].over);
    }
    forget(&s);
}

/* All that the next process reads has come through the file. */
static void test_saved(void)
{
    g_autofree char *path = g_build_filename(folder, "sessions", NULL);
    g_autoptr(GPtrArray) captures = state_files_new();
    g_autoptr(GPtrArray) read = NULL;
    g_autoptr(GError) error = NULL;
    JsonArray *sessions = json_array_new();
    struct state_files *files;
    struct service_session s;
    JsonObject *saved, *command;

    describe(&s, ",\"owner\":\"me\",\"mode\":\"last\","
             "\"size\":{\"bytes\":4194304}");
    s.state = SERVICE_SESSION_ACTIVE;
    s.ring = (char *)".ring-1";
    s.keeping = true;
    g_ptr_array_add(s.dumping, (char *)"1.btrail");
    g_ptr_array_add(s.dumping, (char *)"2.btrail");
    json_array_add_object_element(sessions, service_session_save(&s));
    g_ptr_array_add(captures, btrail_json_new(
        "s:name", "backtraild-0", "s:folder", "vm", "s:process", "1-1-x",
        "a:sessions", sessions, NULL));
    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    files = state_files_open(path, &error);
    g_assert_no_error(error);
    g_assert_true(state_files_write(files, captures, &error));
    read = state_files_read(files);
    g_assert_cmpuint(read->len, ==, 1);
    sessions = btrail_json_array(g_ptr_array_index(read, 0), "sessions");
    g_assert_cmpuint(json_array_get_length(sessions), ==, 1);
    saved = json_array_get_object_element(sessions, 0);
    assert_member(saved, "id", "\"0123456789abcdef\"");
    assert_member(saved, "started", "1700000000000000000");
    assert_member(saved, "ring", "\".ring-1\"");
    assert_member(saved, "whole", "false");
    assert_member(saved, "keeping", "true");
    assert_member(saved, "dumps", "[\"1.btrail\",\"2.btrail\"]");
    g_assert_false(btrail_json_is_true(saved, "over"));
    command = btrail_json_object(saved, "command");
    assert_member(command, "session", "\"s\"");
    assert_member(command, "file", "\"f.btrail\"");
    assert_member(command, "owner", "\"me\"");
    assert_member(command, "size", "{\"bytes\":4194304}");
    state_files_close(files);
    forget(&s);
}

/*
 * A status is of the moment at which it is asked for, and the last one of what
 * is in the file.  While a thread completes the trace, it is as it was before.
 */
static void test_progress(void)
{
    g_autofree char *path = NULL;
    struct service_session *s;
    struct session_scene c;
    GStatBuf st;

    session_scene_init(&c);
    s = session_scene_make(&c, ",\"names\":\"off\"", NULL);
    service_session_begin(s);
    session_scene_feed(&c, s);
    session_scene_records(s, 0, 100);
    assert_status(s, "records", "100");
    s->state = SERVICE_SESSION_FINISHING;
    session_scene_records(s, 100, 200);
    assert_status(s, "records", "100");
    s->state = SERVICE_SESSION_ACTIVE;
    assert_status(s, "records", "300");
    assert_status(s, "filtered", "0");
    session_scene_end(&c, s);
    assert_status(s, "state", "\"ended\"");
    assert_status(s, "records", "300");
    path = session_scene_path(&c, "f.btrail");
    g_assert_cmpint(g_stat(path, &st), ==, 0);
    g_assert_cmpuint(service_session_bytes(s), ==, st.st_size);
    service_session_free(s);
    session_scene_clear(&c);
}

/*
 * One that has all from the first record on is whole, and one with a filter is
 * not.  What the process before has said holds until that is known.
 */
static void test_whole(void)
{
    g_autoptr(JsonObject) state = btrail_json_new(
        "s:id", "0123456789abcdef", "U:started", STARTED * 1000000000,
        "b:whole", true, NULL);
    struct service_session *s;
    struct session_scene c;

    session_scene_init(&c);
    s = session_scene_make(&c, ",\"names\":\"off\"", NULL);
    service_session_begin(s);
    assert_saved(s, "whole", "false");
    session_scene_feed(&c, s);
    assert_saved(s, "whole", "true");
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_remove(&c);
    s = session_scene_make(&c, ",\"names\":\"off\",\"privilege\":\"user\"",
                           state);
    assert_saved(s, "id", "\"0123456789abcdef\"");
    assert_saved(s, "started", "1700000000000000000");
    service_session_begin(s);
    assert_saved(s, "whole", "true");
    session_scene_feed(&c, s);
    assert_saved(s, "whole", "false");
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_clear(&c);
}

/* It has begun, and gets its records. */
static struct service_session *start(struct session_scene *c, const char *more,
                                     JsonObject *state)
{
    struct service_session *s = session_scene_make(c, more, state);

    service_session_begin(s);
    session_scene_feed(c, s);
    return s;
}

/* It ends, and the next process has one of the same state. */
static struct service_session *restart(struct session_scene *c,
                                       struct service_session *s,
                                       const char *more, JsonObject *state)
{
    session_scene_end(c, s);
    service_session_free(s);
    session_scene_remove(c);
    return start(c, more, state);
}

/* A trigger that has started it has acted for the next process, too. */
static void test_keeping(void)
{
    static const char trigger[] = ",\"names\":\"off\",\"triggers\":"
        "[{\"at\":\"kernel:0x1064\",\"do\":\"start\"}]";
    g_autoptr(JsonObject) state = NULL;
    struct service_session *s;
    struct session_scene c;

    session_scene_init(&c);
    s = start(&c, trigger, NULL);
    session_scene_records(s, 0, 100);
    assert_saved(s, "keeping", "false");
    assert_status(s, "records", "0");
    assert_status(s, "filtered", "100");
    /* Record 100 is the first that goes there. */
    session_scene_records(s, 100, 50);
    assert_status(s, "records", "50");
    state = service_session_save(s);
    assert_member(state, "keeping", "true");
    s = restart(&c, s, trigger, state);
    session_scene_records(s, 0, 10);
    assert_saved(s, "keeping", "true");
    assert_status(s, "records", "10");
    assert_status(s, "triggers", "[{\"at\":\"kernel:0x1064\","
                  "\"do\":\"start\",\"hits\":1,\"places\":1}]");
    /* While a thread uses what knows the places, nobody asks it. */
    s->state = SERVICE_SESSION_FINISHING;
    assert_status(s, "triggers", "[{\"at\":\"kernel:0x1064\","
                  "\"do\":\"start\",\"hits\":1}]");
    s->state = SERVICE_SESSION_ACTIVE;
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_clear(&c);
}

/* One that acts once does not act again in the next process. */
static void test_once(void)
{
    static const char trigger[] = ",\"names\":\"off\",\"triggers\":"
        "[{\"at\":\"kernel:0x1064\",\"do\":\"start\",\"once\":true}]";
    static const char format[] = "[{\"at\":\"kernel:0x1064\",\"do\":\"start\","
        "\"hits\":1,\"once\":true,\"off\":%s,\"places\":1}]";
    g_autofree char *on = g_strdup_printf(format, "false");
    g_autofree char *off = g_strdup_printf(format, "true");
    g_autoptr(JsonObject) state = NULL;
    struct service_session *s;
    struct session_scene c;

    session_scene_init(&c);
    s = start(&c, trigger, NULL);
    session_scene_records(s, 0, 100);
    assert_status(s, "triggers", on);
    session_scene_records(s, 100, 50);
    assert_status(s, "triggers", off);
    state = service_session_save(s);
    assert_member(state, "off", "1");
    s = restart(&c, s, trigger, state);
    session_scene_records(s, 0, 10);
    assert_status(s, "triggers", off);
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_clear(&c);
}

static void find_process(struct service_session *s, uint32_t pid,
                         const char *comm)
{
    struct btrail_process p = {
        .pgd = 0x1000 * pid, .mm = pid, .pid = pid, .comm = comm,
        .exe = "", .command_line = "",
    };
    const struct btrail_snapshot snapshot = { .n = 1, .processes = &p };

    session_snapshot(s->session, &snapshot);
}

static void find_symbols(struct service_session *s, const char *text)
{
    session_symbols(s->session, 1, text, strlen(text));
}

/* An address needs not be found, and all else has not been before it begins. */
static void test_nothing_found(void)
{
    g_autoptr(JsonObject) state = btrail_json_new(
        "s:id", "0123456789abcdef", "U:started", STARTED * 1000000000, NULL);
    static const char more[] = ",\"processes\":[\"sh\",12],\"triggers\":["
        "{\"at\":\"kernel:panic\",\"do\":\"dump\"},"
        "{\"at\":\"kernel:0x0\",\"do\":\"dump\"},"
        "{\"at\":\"mark:m\",\"do\":\"dump\"}]";
    struct service_session *s;
    struct session_scene c;

    session_scene_init(&c);
    s = session_scene_make(&c, more, NULL);
    assert_status(s, "not-found",
                  "[\"sh\",\"12\",\"kernel:panic\",\"mark:m\"]");
    service_session_free(s);
    /* What the process before has found is not known. */
    s = session_scene_make(&c, more, state);
    assert_status(s, "not-found", NULL);
    service_session_free(s);
    session_scene_clear(&c);
}

/* What was found once has been found, even if it is gone. */
static void test_found(void)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;
    struct service_session *s;
    struct session_scene c;

    session_scene_init(&c);
    s = session_scene_make(&c, ",\"processes\":[\"sh\",12],\"triggers\":["
             "{\"at\":\"kernel:in_module\",\"do\":\"dump\"},"
             "{\"at\":\"kernel:0x1000\",\"do\":\"dump\"}]", NULL);
    service_session_begin(s);
    session_scene_feed(&c, s);
    session_names(s->session, NULL);
    find_symbols(s, "ffffffffc0001000 t in_module\t[module]\n");
    while (!s->ready) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        iterate();
    }
    find_process(s, 7, "sh");
    assert_status(s, "not-found", "[\"12\"]");
    assert_status(s, "triggers", "[{\"at\":\"kernel:in_module\","
                  "\"do\":\"dump\",\"hits\":1,\"places\":1},"
                  "{\"at\":\"kernel:0x1000\",\"do\":\"dump\",\"hits\":1,"
                  "\"places\":1}]");
    find_symbols(s, "ffffffffc0009000 t another\t[other]\n");
    find_process(s, 8, "bash");
    assert_status(s, "not-found", "[\"12\"]");
    assert_status(s, "triggers", "[{\"at\":\"kernel:in_module\","
                  "\"do\":\"dump\",\"hits\":1,\"places\":0},"
                  "{\"at\":\"kernel:0x1000\",\"do\":\"dump\",\"hits\":1,"
                  "\"places\":1}]");
    session_scene_end(&c, s);
    /* It can be asked for when nothing is there any more to be asked. */
    assert_status(s, "not-found", "[\"12\"]");
    assert_status(s, "triggers", "[{\"at\":\"kernel:in_module\","
                  "\"do\":\"dump\",\"hits\":1},"
                  "{\"at\":\"kernel:0x1000\",\"do\":\"dump\",\"hits\":1}]");
    service_session_free(s);
    session_scene_clear(&c);
}

static void test_all_found(void)
{
    struct service_session *s;
    struct session_scene c;

    session_scene_init(&c);
    s = session_scene_make(&c, ",\"processes\":[\"sh\"],\"triggers\":["
             "{\"at\":\"kernel:panic\",\"do\":\"dump\"}]", NULL);
    service_session_begin(s);
    session_scene_feed(&c, s);
    assert_status(s, "not-found", "[\"sh\",\"kernel:panic\"]");
    /* It counts from when it is found, whoever has heard of that. */
    find_symbols(s, "ffffffff81000000 T panic\n");
    assert_status(s, "not-found", "[\"sh\"]");
    find_process(s, 7, "sh");
    assert_status(s, "not-found", NULL);
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_clear(&c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    g_test_add_func("/service-session-state/words", test_words);
    g_test_add_func("/service-session-state/defaults", test_defaults);
    g_test_add_func("/service-session-state/requested", test_requested);
    g_test_add_func("/service-session-state/sums", test_sums);
    g_test_add_func("/service-session-state/waited", test_waited);
    g_test_add_func("/service-session-state/ended", test_ended);
    g_test_add_func("/service-session-state/triggers", test_triggers);
    g_test_add_func("/service-session-state/not-saved", test_not_saved);
    g_test_add_func("/service-session-state/over", test_over);
    g_test_add_data_func("/service-session-state/saved", test_saved,
                         in_folder);
    g_test_add_data_func("/service-session-state/progress", test_progress,
                         in_folder);
    g_test_add_data_func("/service-session-state/whole", test_whole,
                         in_folder);
    g_test_add_data_func("/service-session-state/keeping", test_keeping,
                         in_folder);
    g_test_add_data_func("/service-session-state/once", test_once,
                         in_folder);
    g_test_add_data_func("/service-session-state/nothing-found",
                         test_nothing_found, in_folder);
    g_test_add_data_func("/service-session-state/found", test_found,
                         in_folder);
    g_test_add_data_func("/service-session-state/all-found", test_all_found,
                         in_folder);
    return g_test_run();
}
