/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of a session, from its files to its end; the test is its capture
 */

#include <glib/gstdio.h>
#include <string.h>

#include "drain/session-feed.h"
#include "fake-device.h"
#include "lib/agent/parts.h"
#include "service/log.h"
#include "session-scene.h"

#define OWNER   ".guest"        /* says whose folder it is */
#define PLAIN   ",\"names\":\"off\""
#define LAST    PLAIN ",\"mode\":\"last\",\"size\":{\"bytes\":4194304}"

/* How many traces and rings in the guest's folder begin so */
static unsigned count(const struct session_scene *c, const char *prefix)
{
    g_autoptr(GDir) dir = g_dir_open(c->folder->path, 0, NULL);
    const char *name;
    unsigned n = 0;

    while ((name = g_dir_read_name(dir))) {
        n += g_str_has_prefix(name, prefix) && strcmp(name, OWNER);
    }
    return n;
}

/* Its trace: how many records, and whether it has its end */
static uint64_t records_of(const struct session_scene *c, const char *name,
                           bool *ended)
{
    g_autofree char *path = session_scene_path(c, name);
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    *ended = status.complete;
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    btrail_trace_close(trace);
    return info.records;
}

static void check_trace(const struct session_scene *c, uint64_t records,
                        bool wanted)
{
    bool ended;

    g_assert_cmpuint(records_of(c, "f.btrail", &ended), ==, records);
    g_assert_cmpint(ended, ==, wanted);
}

/* Let it report what it has to report. */
static void settle(void)
{
    for (unsigned i = 0; i < 20; i++) {
        iterate();
    }
}

static struct service_session *start(struct session_scene *c, const char *more,
                                     unsigned records)
{
    struct service_session *s = session_scene_make(c, more, NULL);

    g_assert_cmpint(s->state, ==, SERVICE_SESSION_STARTING);
    service_session_begin(s);
    g_assert_cmpint(s->state, ==, SERVICE_SESSION_ACTIVE);
    session_scene_feed(c, s);
    if (records) {
        session_scene_records(s, 0, records);
    }
    return s;
}

static void done(struct session_scene *c, struct service_session *s,
                 enum service_session_state state, const char *why)
{
    session_scene_wait(c, SERVICE_SESSION_DONE);
    g_assert_cmpint(s->state, ==, state);
    g_assert_cmpstr(s->why, ==, why);
    settle();
    g_assert_cmpuint(c->events[SERVICE_SESSION_DONE], ==, 0);
    service_session_free(s);
}

/* From request to trace; only the first who ends it says why. */
static void test_life(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = start(&c, PLAIN, 100);
    session_scene_wait(&c, SERVICE_SESSION_READY);
    g_assert_cmpuint(c.events[SERVICE_SESSION_CHANGED], ==, 0);
    service_session_end(s, NULL, "enough");
    g_assert_cmpint(s->state, ==, SERVICE_SESSION_ENDING);
    g_assert_cmpuint(c.events[SERVICE_SESSION_CHANGED], ==, 1);
    service_session_end(s, NULL, "too much");
    g_assert_cmpuint(c.events[SERVICE_SESSION_CHANGED], ==, 1);
    g_assert_false(service_session_detach(s));
    session_scene_stop(s, BTRAIL_END_SHUTDOWN);
    done(&c, s, SERVICE_SESSION_ENDED, "enough");
    check_trace(&c, 100, true);
    session_scene_clear(&c);
}

/* What it has waited is asked for when it is over, or nobody may ask before. */
static void test_waited(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = start(&c, PLAIN, 10);
    service_session_waited(s, &c.waited);
    c.waited = (struct capture_progress) { .paused_ns = 7, .limited_ns = 5 };
    session_scene_stop(s, BTRAIL_END_STOPPED);
    session_scene_wait(&c, SERVICE_SESSION_DONE);
    g_assert_cmpuint(c.events[SERVICE_SESSION_DRAINED], ==, 1);
    g_assert_cmpuint(s->paused_ns, ==, 7);
    g_assert_cmpuint(s->limited_ns, ==, 5);
    service_session_free(s);
    session_scene_clear(&c);
}

/* If nobody has ended it, the capture says why. */
static void test_reasons(void)
{
    static const struct {
        uint16_t reason;
        const char *why;
    } reasons[] = {
        { BTRAIL_END_STOPPED, NULL },
        { BTRAIL_END_SHUTDOWN, "the guest has ended" },
        { BTRAIL_END_MIGRATED, "the guest runs elsewhere now" },
        { BTRAIL_END_PRODUCER_LOST, "QEMU has gone away" },
    };
    struct session_scene c;

    session_scene_init(&c);
    for (unsigned i = 0; i < G_N_ELEMENTS(reasons); i++) {
        struct service_session *s = start(&c, PLAIN, 10);

        session_scene_stop(s, reasons[i].reason);
        done(&c, s, SERVICE_SESSION_ENDED, reasons[i].why);
        check_trace(&c, 10, true);
        session_scene_remove(&c);
    }
    session_scene_clear(&c);
}

/* Who was never in a capture leaves nothing, and is done later. */
static void test_never_active(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    for (unsigned last = 0; last < 2; last++) {
        s = session_scene_make(&c, last ? LAST : PLAIN, NULL);
        g_assert_cmpuint(count(&c, last ? ".ring-" : "f.btrail"), ==, 1);
        g_assert_false(service_session_detach(s));
        service_session_end(s, NULL, "no time");
        g_assert_cmpint(s->state, ==, SERVICE_SESSION_FAILED);
        g_assert_cmpuint(c.events[SERVICE_SESSION_DONE], ==, 0);
        g_assert_cmpuint(count(&c, ""), ==, 0);
        done(&c, s, SERVICE_SESSION_FAILED, "no time");

        s = session_scene_make(&c, last ? LAST : PLAIN, NULL);
        g_assert_cmpuint(count(&c, ""), >, 0);
        service_session_free(s);
        g_assert_cmpuint(count(&c, ""), ==, 0);
    }
    settle();
    g_assert_cmpuint(c.events[SERVICE_SESSION_DONE], ==, 0);
    service_session_free(NULL);
    session_scene_clear(&c);
}

/* Its capture could not start: no trace, and why. */
static void test_abandoned(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    for (unsigned i = 0; i < 4; i++) {
        s = i < 2 ? start(&c, i ? LAST : PLAIN, 10) :
            session_scene_make(&c, i % 2 ? LAST : PLAIN, NULL);
        /* Also of one that has failed already, for the first reason. */
        if (i % 2) {
            service_session_spoil(s, "before");
        }
        service_session_abandon(s, "no room");
        if (i < 2) {
            session_scene_stop(s, BTRAIL_END_STOPPED);
        }
        done(&c, s, SERVICE_SESSION_FAILED, i % 2 ? "before" : "no room");
        g_assert_cmpuint(count(&c, ""), ==, 0);
    }
    session_scene_clear(&c);
}

/* The trace is whole, and yet not what was requested. */
static void test_spoilt(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = start(&c, PLAIN, 10);
    service_session_spoil(s, "no names");
    service_session_spoil(s, "another");
    g_assert_cmpint(s->state, ==, SERVICE_SESSION_ACTIVE);
    session_scene_stop(s, BTRAIL_END_SHUTDOWN);
    done(&c, s, SERVICE_SESSION_FAILED, "no names");
    check_trace(&c, 10, true);
    session_scene_clear(&c);
}

/* Records that are missing, and that nothing explains */
static void test_unexplained(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = start(&c, PLAIN, 10);
    session_scene_lost(s, 10, 17, 10);
    session_scene_stop(s, BTRAIL_END_SHUTDOWN);
    done(&c, s, SERVICE_SESSION_FAILED,
         "7 records are missing, and QEMU does not say why");
    check_trace(&c, 20, true);
    session_scene_clear(&c);
}

/* The next process goes on in another part, and counts what there is. */
static void test_detached(void)
{
    g_autoptr(JsonObject) state = NULL;
    g_autoptr(GError) error = NULL;
    struct service_session_options options;
    struct service_session *s;
    struct session_scene c;
    struct leftover *left;
    g_autofree char *part = NULL;
    bool ended;

    session_scene_init(&c);
    s = start(&c, PLAIN, 100);
    session_scene_wait(&c, SERVICE_SESSION_READY);
    state = service_session_save(s);
    g_assert_true(service_session_detach(s));
    /* It is still active, and what fails now is no reason to fail. */
    service_session_spoil(s, NULL);
    g_assert_cmpint(s->fate, ==, SERVICE_SESSION_DETACHED);
    session_scene_stop(s, 0);
    done(&c, s, SERVICE_SESSION_ENDED, NULL);
    check_trace(&c, 100, true);

    left = leftover_inspect(c.folder, "f.btrail", &error);
    g_assert_no_error(error);
    g_assert_nonnull(left);
    options = session_scene_options(&c, PLAIN);
    s = service_session_new(&options, state, left, &error);
    g_assert_no_error(error);
    g_assert_true(s->resumed);
    g_assert_cmpuint(s->first_part, ==, 1);
    g_assert_cmpuint(s->past.records, ==, 100);
    g_assert_cmpuint(service_session_bytes(s), >=, s->past.bytes);
    service_session_begin(s);
    session_scene_feed(&c, s);
    session_scene_records(s, 0, 20);
    session_scene_end(&c, s);
    g_assert_cmpint(s->state, ==, SERVICE_SESSION_ENDED);
    service_session_free(s);
    g_assert_cmpuint(count(&c, "f"), ==, 2);
    check_trace(&c, 100, true);
    part = btrail_part_path("f.btrail", 1);
    g_assert_cmpuint(records_of(&c, part, &ended), ==, 20);
    g_assert_true(ended);
    session_scene_clear(&c);
}

/* Of a flight recorder: its trace comes from its ring, which goes. */
static void test_last(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = start(&c, LAST, 100);
    g_assert_cmpuint(count(&c, "f.btrail"), ==, 0);
    g_assert_cmpuint(count(&c, ".ring-"), ==, 1);
    session_scene_stop(s, BTRAIL_END_STOPPED);
    done(&c, s, SERVICE_SESSION_ENDED, NULL);
    check_trace(&c, 100, true);
    g_assert_cmpuint(count(&c, ""), ==, 1);
    session_scene_remove(&c);

    /* The next process needs the ring. */
    s = start(&c, LAST, 100);
    g_assert_true(service_session_detach(s));
    session_scene_stop(s, 0);
    done(&c, s, SERVICE_SESSION_ENDED, NULL);
    g_assert_cmpuint(count(&c, ".ring-"), ==, 1);
    g_assert_cmpuint(count(&c, ""), ==, 1);
    session_scene_clear(&c);
}

static void check_refused(struct session_scene *c, const char *more,
                          int code, const char *why)
{
    const struct service_session_options options =
        session_scene_options(c, more);
    g_autoptr(GError) error = NULL;

    g_assert_null(service_session_new(&options, NULL, NULL, &error));
    g_assert_error(error, SERVICE_ERROR, code);
    g_assert_nonnull(strstr(error->message, why));
}

/* What cannot be made leaves nothing, and what was there as it was. */
static void test_refused(void)
{
    struct session_scene c;
    g_autofree char *path = NULL, *text = NULL;

    session_scene_init(&c);
    path = session_scene_path(&c, "f.btrail");
    g_assert_true(g_file_set_contents(path, "mine", -1, NULL));
    check_refused(&c, PLAIN, SERVICE_ERROR_NAME, "there is a trace 'f.btrail'");
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "mine");
    g_assert_cmpuint(count(&c, ""), ==, 1);
    g_assert_cmpint(g_unlink(path), ==, 0);

    c.host.config->ring = 4194303;
    check_refused(&c, LAST, SERVICE_ERROR_LIMIT,
                  "may keep 4194303 bytes at most");
    g_assert_cmpuint(count(&c, ""), ==, 0);
    c.host.config->ring = 4194304;
    service_session_free(session_scene_make(&c, LAST, NULL));
    session_scene_clear(&c);
}

/* It is reported again until somebody ends it. */
static void test_duration(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = start(&c, PLAIN ",\"duration\":0.05", 10);
    settle();
    g_assert_cmpint(s->state, ==, SERVICE_SESSION_ACTIVE);
    session_scene_wait(&c, SERVICE_SESSION_TIME_OVER);
    session_scene_wait(&c, SERVICE_SESSION_TIME_OVER);
    g_assert_cmpint(s->state, ==, SERVICE_SESSION_ACTIVE);
    service_session_end(s, NULL, "time");
    session_scene_stop(s, BTRAIL_END_STOPPED);
    session_scene_wait(&c, SERVICE_SESSION_DONE);
    c.events[SERVICE_SESSION_TIME_OVER] = 0;
    g_usleep(150000);
    settle();
    g_assert_cmpuint(c.events[SERVICE_SESSION_TIME_OVER], ==, 0);
    service_session_free(s);
    session_scene_clear(&c);
}

/* Of a session that is older than it was to be */
static void test_duration_over(void)
{
    g_autoptr(JsonObject) state = btrail_json_new(
        "s:id", "0123456789abcdef",
        "U:started", G_GUINT64_CONSTANT(1700000000000000000), NULL);
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = session_scene_make(&c, PLAIN ",\"duration\":3600", state);
    service_session_begin(s);
    /* Not at once: its owner has not put it into the capture yet. */
    g_assert_cmpuint(c.events[SERVICE_SESSION_TIME_OVER], ==, 0);
    session_scene_wait(&c, SERVICE_SESSION_TIME_OVER);
    session_scene_feed(&c, s);
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_clear(&c);
}

/* Once it is ready, that can be said again. */
static void test_ready(void)
{
    struct session_scene c;
    struct service_session *s;

    session_scene_init(&c);
    s = session_scene_make(&c, PLAIN, NULL);
    service_session_report_ready(s);
    service_session_begin(s);
    settle();
    service_session_report_ready(s);
    g_assert_cmpuint(c.events[SERVICE_SESSION_READY], ==, 0);
    session_scene_feed(&c, s);
    session_scene_wait(&c, SERVICE_SESSION_READY);
    settle();
    g_assert_cmpuint(c.events[SERVICE_SESSION_READY], ==, 0);
    service_session_report_ready(s);
    g_assert_cmpuint(c.events[SERVICE_SESSION_READY], ==, 1);
    session_scene_end(&c, s);
    service_session_free(s);
    session_scene_clear(&c);
}

/* Names were requested and the guest has none: it never was, unless the process
 * before has said already that it is. */
static void test_unnamed(void)
{
    for (unsigned resumed = 0; resumed < 2; resumed++) {
        g_autoptr(JsonObject) state = !resumed ? NULL : btrail_json_new(
            "s:id", "0123456789abcdef",
            "U:started", G_GUINT64_CONSTANT(1700000000000000000), NULL);
        struct session_scene c;
        struct service_session *s;

        session_scene_init(&c);
        s = session_scene_make(&c, ",\"processes\":[\"sh\"]", state);
        service_session_begin(s);
        session_scene_feed(&c, s);
        session_scene_records(s, 0, 10);
        session_names(s->session, "it is not a Linux");
        g_assert_true(session_over(s->session));
        session_scene_stop(s, BTRAIL_END_STOPPED);
        session_scene_wait(&c, SERVICE_SESSION_DONE);
        g_assert_cmpint(s->state, ==, SERVICE_SESSION_FAILED);
        g_assert_nonnull(strstr(s->why, "it is not a Linux"));
        g_assert_cmpuint(c.events[SERVICE_SESSION_READY], ==, 0);
        g_assert_cmpuint(count(&c, ""), ==, resumed);
        service_session_free(s);
        if (resumed) {
            session_scene_remove(&c);
        }
        session_scene_clear(&c);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {
        { "life", test_life }, { "waited", test_waited },
        { "reasons", test_reasons },
        { "never-active", test_never_active }, { "abandoned", test_abandoned },
        { "spoilt", test_spoilt }, { "unexplained", test_unexplained },
        { "detached", test_detached }, { "last", test_last },
        { "refused", test_refused }, { "duration", test_duration },
        { "duration-over", test_duration_over }, { "ready", test_ready },
        { "unnamed", test_unnamed },
    };

    g_test_init(&argc, &argv, NULL);
    service_log_init(true, true);
    for (unsigned i = 0; i < G_N_ELEMENTS(tests); i++) {
        g_autofree char *name = g_strdup_printf("/service-session-life/%s",
                                                tests[i].name);

        g_test_add_data_func(name, tests[i].test, in_folder);
    }
    return g_test_run();
}
