/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of one capture, with filters, rings and triggers: each trace is
 * compared with what the test says that it must have
 */

#include <glib/gstdio.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "backtrail/code.h"
#include "drain/capture.h"
#include "drain/session-feed.h"
#include "lib/agent/budget.h"
#include "count-files.h"
#include "fake-producer.h"
#include "util/json.h"
#include "trace-samples.h"

#define KERNEL  UINT64_C(0xffffffff81000000)
#define SLAB    100
#define CR3_A   UINT64_C(0x1000)
#define CR3_B   UINT64_C(0x2000)

struct rig {
    struct fake_producer f;
    struct capture *capture;
    uint64_t next;              /* record to be published */
};

struct client {
    struct session *session;
    struct session_result result;
    char *path;
};

/* A bit of user mode, a bit of the kernel, in turns of different length */
static void make_record(uint64_t index, struct btrail_record *r)
{
    bool from = index % 7 > 3;
    bool to = (index + 1) % 7 > 3;

    r->from = (from ? KERNEL : 0x400000) + index;
    r->to = (to ? KERNEL : 0x400000) + 5 * index;
    r->flags = 0;
}

static uint64_t cr3_of(uint64_t index)
{
    return index % SLAB < SLAB / 2 ? CR3_A : CR3_B;
}

static void start(struct rig *r, unsigned vcpus, uint32_t policy,
                  uint32_t code_items)
{
    struct capture_options options = { 0 };

    r->next = 0;
    fake_init_code(&r->f, vcpus, 8, policy, code_items);
    r->f.record = make_record;
    options.sock = r->f.agent_sock;
    r->capture = capture_start(&options);
}

static void ready(struct rig *r)
{
    fake_hello(&r->f);
    fake_expect(&r->f, BTRAIL_MSG_READY);
}

static void make(struct client *c, struct session_settings *options)
{
    struct btrail_store_options store = { 0 };

    c->path = sample_path();
    store.path = c->path;
    g_assert_cmpint(btrail_store_open(&options->store, &store), ==, 0);
    options->metadata = json_object_new();
    json_object_set_string_member(options->metadata, "session", "client");
    c->session = session_new(options, NULL);
    g_assert_nonnull(c->session);
    json_object_unref(options->metadata);
}

static void add(struct rig *r, struct client *c,
                struct session_settings *options)
{
    make(c, options);
    capture_add(r->capture, c->session);
}

static void wait_begun(struct client *c)
{
    struct session_progress p = { 0 };

    while (!p.begun) {
        g_usleep(1000);
        session_progress(c->session, &p);
    }
}

static void publish(struct rig *r, unsigned slabs)
{
    while (slabs--) {
        const struct btrail_event change = {
            .index = r->next + SLAB / 2, .type = BTRAIL_EVENT_CR3,
            .data = { CR3_B },
        };

        fake_wait_free(&r->f, 0);
        fake_publish(&r->f, 0, r->next, SLAB, &change, 1);
        r->next += SLAB;
    }
}

/* Waits until all that was published has been drained. */
static void drain(struct rig *r)
{
    struct btrail_shm_vcpu *v = fake_vcpu(&r->f, 0);

    while (__atomic_load_n(&v->tail[0], __ATOMIC_ACQUIRE) != v->head) {
        g_usleep(1000);
    }
}

static void finish_capture(struct rig *r)
{
    struct capture_result result;

    fake_wait_free(&r->f, 0);
    fake_publish_end(&r->f, 0, r->next);
    fake_end(&r->f, BTRAIL_END_STOPPED);
    capture_finish(r->capture, &result);
    g_assert_no_error(result.error);
    fake_clear(&r->f);
}

static void wait_done(struct client *c)
{
    struct pollfd pfd = {
        .fd = session_done_fd(c->session), .events = POLLIN,
    };

    g_assert_cmpint(poll(&pfd, 1, 60000), ==, 1);
}

static void finish(struct client *c)
{
    wait_done(c);
    session_finish(c->session, &c->result);
    g_assert_no_error(c->result.error);
    g_assert_cmpuint(c->result.unexplained, ==, 0);
}

static void clear(struct client *c)
{
    g_clear_error(&c->result.error);
    g_free(c->result.no_names);
    sample_remove(c->path);
}

/* A simple reference of what a session wants; NULL for what it must not see */
typedef bool want_fn(uint64_t index, struct btrail_record *r);

static bool want_all(uint64_t index, struct btrail_record *r)
{
    return true;
}

static bool want_user(uint64_t index, struct btrail_record *r)
{
    bool from = r->from >= KERNEL, to = r->to >= KERNEL;

    r->from = from ? BTRAIL_PSEUDO_FROM_KERNEL : r->from;
    r->to = to ? BTRAIL_PSEUDO_TO_KERNEL : r->to;
    return !from || !to;
}

static bool want_kernel_of_b(uint64_t index, struct btrail_record *r)
{
    bool from = r->from >= KERNEL, to = r->to >= KERNEL;

    r->from = from ? r->from : BTRAIL_PSEUDO_FROM_USER;
    r->to = to ? r->to : BTRAIL_PSEUDO_TO_USER;
    return (from || to) && cr3_of(index) == CR3_B;
}

/*
 * Checks that the file has exactly what is wanted of records @first up to @end,
 * numbered from @begin, and @gaps events that report the loss of @lost records.
 */
static void check(const char *path, want_fn *want, uint64_t first,
                  uint64_t end, uint64_t begin, unsigned gaps, uint64_t lost)
{
    struct btrail_cursor *cursor;
    struct btrail_trace *trace;
    struct btrail_batch b;
    uint64_t index = begin, at = first, got_lost = 0;
    unsigned got_gaps = 0;
    bool ended = false;
    int ret;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        size_t i;

        if (b.synthetic) {
            /* What is in another file */
            g_assert_cmpuint(b.event->reason, ==, BTRAIL_GAP_CORRUPT);
            g_assert_cmpuint(b.event->data[0], ==, begin);
            continue;
        }
        g_assert_false(ended);
        g_assert_cmpuint(b.index, ==, index);
        for (i = 0; i < b.count; i++) {
            struct btrail_record r;

            do {
                g_assert_cmpuint(at, <, end);
                make_record(at, &r);
                at++;
            } while (!want(at - 1, &r));
            g_assert_cmphex(b.records[i].from, ==, r.from);
            g_assert_cmphex(b.records[i].to, ==, r.to);
            g_assert_cmphex(b.cr3, ==, cr3_of(at - 1));
        }
        index += b.count;
        if (b.event && b.event->type == BTRAIL_EVENT_GAP) {
            got_gaps++;
            if (b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
                uint64_t n = b.event->data[0];

                got_lost += n;
                index += n;
                for (; n; at++) {
                    struct btrail_record r;

                    make_record(at, &r);
                    n -= want(at, &r);
                }
            }
        }
        ended = b.event && b.event->type == BTRAIL_EVENT_END;
    }
    g_assert_true(ended);
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    for (; at < end; at++) {
        struct btrail_record r;

        make_record(at, &r);
        g_assert_false(want(at, &r));
    }
    g_assert_cmpuint(got_gaps, ==, gaps);
    g_assert_cmpuint(got_lost, ==, lost);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
}

/* Three sessions from the beginning, with different filters */
static void test_several(void)
{
    static const uint64_t cr3s[] = { CR3_B };
    struct session_settings options[3] = { { 0 } };
    static want_fn *const wants[] = { want_all, want_user, want_kernel_of_b };
    struct client c[3];
    struct rig r;
    unsigned i;

    options[1].filter.privilege = BTRAIL_PRIVILEGE_USER;
    options[2].filter.privilege = BTRAIL_PRIVILEGE_KERNEL;
    options[2].filter.cr3s = cr3s;
    options[2].filter.n_cr3s = 1;
    start(&r, 2, BTRAIL_OVERFLOW_PAUSE, 0);
    for (i = 0; i < 3; i++) {
        add(&r, &c[i], &options[i]);
    }
    ready(&r);
    publish(&r, 300);
    finish_capture(&r);
    for (i = 0; i < 3; i++) {
        finish(&c[i]);
        check(c[i].path, wants[i], 0, 300 * SLAB, 0, 0, 0);
        g_assert_cmpuint(c[i].result.progress.records +
                         c[i].result.progress.filtered, ==, 300 * SLAB);
        g_assert_cmpuint(c[i].result.reason, ==, BTRAIL_END_STOPPED);
        clear(&c[i]);
    }
}

/* Sessions come and go while it runs; each has what was made meanwhile. */
static void test_come_and_go(void)
{
    struct session_settings all = { 0 };
    struct session_settings user = {
        .filter.privilege = BTRAIL_PRIVILEGE_USER,
    };
    struct capture_progress p;
    struct client first, second, third;
    struct rig r;

    start(&r, 2, BTRAIL_OVERFLOW_PAUSE, 0);
    ready(&r);
    /* Nobody is there. */
    publish(&r, 20);
    drain(&r);
    add(&r, &first, &all);
    wait_begun(&first);
    g_assert_false(session_whole(first.session));
    publish(&r, 20);
    drain(&r);
    add(&r, &second, &user);
    wait_begun(&second);
    publish(&r, 20);
    /* What was published before it is removed is still its. */
    capture_remove(r.capture, first.session);
    finish(&first);
    check(first.path, want_all, 20 * SLAB, 60 * SLAB, 0, 0, 0);
    add(&r, &third, &all);
    wait_begun(&third);
    publish(&r, 20);
    capture_remove(r.capture, second.session);
    finish(&second);
    check(second.path, want_user, 40 * SLAB, 80 * SLAB, 0, 0, 0);
    capture_remove(r.capture, third.session);
    finish(&third);
    check(third.path, want_all, 60 * SLAB, 80 * SLAB, 0, 0, 0);
    publish(&r, 20);
    drain(&r);
    capture_progress(r.capture, &p);
    g_assert_cmpuint(p.records, ==, 100 * SLAB);
    g_assert_cmpuint(p.lost, ==, 0);
    finish_capture(&r);
    clear(&first);
    clear(&second);
    clear(&third);
}

/* Only sessions that know that lost records were theirs count them. */
static void test_gaps(void)
{
    struct session_settings all = { 0 };
    struct session_settings user = {
        .filter.privilege = BTRAIL_PRIVILEGE_USER,
    };
    struct btrail_event gap = {
        .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
        .data = { 2 * SLAB },
    };
    struct client early, late, filtered;
    struct rig r;
    unsigned i;

    start(&r, 1, BTRAIL_OVERFLOW_DROP, 0);
    r.f.record = make_record;
    add(&r, &early, &all);
    ready(&r);
    publish(&r, 10);
    drain(&r);
    add(&r, &late, &all);
    add(&r, &filtered, &user);
    wait_begun(&filtered);
    for (i = 0; i < 3; i++) {
        const struct btrail_event change = {
            .index = r.next + 2 * SLAB + SLAB / 2, .type = BTRAIL_EVENT_CR3,
            .data = { CR3_B },
        };
        struct btrail_event events[2];

        r.next += 2 * SLAB;
        gap.index = r.next;
        events[0] = gap;
        events[1] = change;
        fake_wait_free(&r.f, 0);
        fake_publish(&r.f, 0, r.next, SLAB, events, 2);
        r.next += SLAB;
    }
    finish_capture(&r);
    finish(&early);
    check(early.path, want_all, 0, r.next, 0, 3, 6 * SLAB);
    finish(&late);
    check(late.path, want_all, 10 * SLAB, r.next, 0, 3, 6 * SLAB);
    g_assert_cmpuint(late.result.progress.lost, ==, 6 * SLAB);
    finish(&filtered);
    g_assert_cmpuint(filtered.result.progress.lost, ==, 0);
    clear(&early);
    clear(&late);
    clear(&filtered);
}

/* Another part of a trace that was begun earlier */
static void test_resume(void)
{
    static const uint64_t indices[] = { 5000 };
    struct session_settings options = {
        .resumes = true, .resume = indices, .n_resume = 1,
        .filter.privilege = BTRAIL_PRIVILEGE_USER,
    };
    struct client c;
    struct rig r;

    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 0);
    add(&r, &c, &options);
    ready(&r);
    publish(&r, 10);
    finish_capture(&r);
    finish(&c);
    check(c.path, want_user, 0, 10 * SLAB, 5000, 1, 0);
    clear(&c);
}

/*
 * The parts before have no stream: it is the trace of those all the same, and
 * keeps its id, whatever the capture is.
 */
static void test_resume_nothing(void)
{
    struct session_settings options = { .resumes = true };
    struct session_settings begins = { .resumes = false };
    struct client c, other;
    struct rig r;

    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 0);
    add(&r, &c, &options);
    add(&r, &other, &begins);
    ready(&r);
    g_assert_false(session_whole(c.session));
    g_assert_true(session_whole(other.session));
    publish(&r, 10);
    finish_capture(&r);
    finish(&c);
    finish(&other);
    clear(&c);
    clear(&other);
}

static int read_code(struct btrail_code *code, uint64_t index,
                     uint64_t address)
{
    uint8_t byte;

    return btrail_code_read(code, 0, index, CR3_A, address, &byte, 1) > 0 ?
           byte : -1;
}

/*
 * Code holds from the session's first record on that is not before the one of
 * the capture.  No code of the kernel is in the trace of user mode.
 */
static void test_code(void)
{
    struct session_settings options = {
        .filter.privilege = BTRAIL_PRIVILEGE_USER,
    };
    struct btrail_code_item item = { .type = BTRAIL_CODE_BYTES };
    struct btrail_record record;
    struct btrail_trace *trace;
    struct btrail_code *code;
    uint64_t kept = 0, index;
    struct client c;
    struct rig r;
    unsigned i;

    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 64);
    add(&r, &c, &options);
    ready(&r);
    for (i = 1; i <= 12; i++) {
        item.number = i;
        fake_publish_code(&r.f, 0, &item, i);
    }
    item = (struct btrail_code_item) {
        .type = BTRAIL_CODE_PAGE, .cr3 = CR3_A, .linear = KERNEL,
        .number = 12,
    };
    fake_publish_code(&r.f, 0, &item, 0);
    item.linear = 0x400000;
    for (i = 1; i <= 10; i++) {
        item.number = i;
        item.index = (i - 1) * 37;
        fake_publish_code(&r.f, 0, &item, 0);
    }
    publish(&r, 10);
    finish_capture(&r);
    finish(&c);
    check(c.path, want_user, 0, 10 * SLAB, 0, 0, 0);
    g_assert_cmpint(btrail_trace_open(&trace, c.path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    for (index = 0; index < 10 * SLAB; index++) {
        make_record(index, &record);
        g_assert_cmpint(read_code(code, kept, KERNEL), ==, -1);
        if (want_user(index, &record)) {
            g_assert_cmpint(read_code(code, kept++, 0x400000), ==,
                            MIN(index / 37 + 1, 10));
        }
    }
    btrail_code_close(code);
    btrail_trace_close(trace);
    clear(&c);
}

static JsonNode *read_description(const struct client *c)
{
    struct btrail_trace *trace;
    JsonNode *node;
    const char *text;

    g_assert_cmpint(btrail_trace_open(&trace, c->path), ==, 0);
    g_assert_cmpint(btrail_trace_meta(trace, 0, &text, NULL), ==, 0);
    node = btrail_json_parse_object(text);
    btrail_trace_close(trace);
    return node;
}

/* The description of the session in its file */
static void test_description(void)
{
    static const uint32_t vcpus[] = { 0, 1 };
    static const uint64_t cr3s[] = { CR3_B };
    struct session_settings options = {
        .filter = { vcpus, 2, cr3s, 1, NULL, BTRAIL_PRIVILEGE_USER },
        .drop = true,
    };
    JsonObject *o;
    JsonNode *node;
    struct client c;
    struct rig r;

    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 0);
    add(&r, &c, &options);
    ready(&r);
    publish(&r, 1);
    finish_capture(&r);
    finish(&c);
    node = read_description(&c);
    o = json_node_get_object(node);
    g_assert_cmpstr(btrail_json_string(o, "session"), ==, "client");
    g_assert_cmpstr(btrail_json_string(o, "privilege"), ==, "user");
    g_assert_cmpstr(btrail_json_string(o, "overflow"), ==, "drop");
    g_assert_cmpstr(btrail_json_string(o, "vcpu_filter"), ==, "0,1");
    g_assert_cmpstr(json_array_get_string_element(
        json_object_get_array_member(o, "cr3_filter"), 0), ==, "0x2000");
    json_node_unref(node);
    clear(&c);
}

/* Without a scanner, processes cannot be distinguished. */
static void test_no_names(void)
{
    static const char *const processes[] = { "nginx", "7", NULL };
    struct session_settings options = { 0 }, picky = {
        .filter = { .processes = processes },
    };
    struct client c, d;
    JsonNode *node;
    struct rig r;

    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 0);
    add(&r, &c, &options);
    add(&r, &d, &picky);
    g_assert_cmpint(session_has_names(c.session), ==,
                    SESSION_NAMES_FINE);
    g_assert_cmpint(session_has_names(d.session), ==,
                    SESSION_NAMES_UNKNOWN);
    ready(&r);
    publish(&r, 1);
    wait_done(&d);
    g_assert_cmpint(session_has_names(d.session), ==,
                    SESSION_NAMES_MISSING);
    publish(&r, 1);
    finish_capture(&r);
    finish(&c);
    g_assert_cmpuint(c.result.progress.records, ==, 2 * SLAB);
    session_finish(d.session, &d.result);
    g_assert_error(d.result.error, AGENT_ERROR,
                   AGENT_ERROR_NAMES);
    g_assert_cmpuint(d.result.progress.records, ==, 0);
    node = read_description(&d);
    g_assert_cmpuint(json_array_get_length(json_object_get_array_member(
        json_node_get_object(node), "processes")), ==, 2);
    json_node_unref(node);
    clear(&c);
    clear(&d);
}

/* Sessions without a record: never added, added too late */
static void test_nothing(void)
{
    struct session_settings options = { 0 }, late = { 0 };
    struct capture_result result;
    struct btrail_trace *trace;
    struct client c, d;
    struct pollfd done = { .events = POLLIN };
    struct rig r;

    make(&c, &options);
    session_finish(c.session, &c.result);
    g_assert_no_error(c.result.error);
    g_assert_cmpint(btrail_trace_open(&trace, c.path), ==, 0);
    g_assert_cmpuint(btrail_trace_streams(trace), ==, 0);
    btrail_trace_close(trace);
    clear(&c);

    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 0);
    ready(&r);
    fake_end(&r.f, BTRAIL_END_SHUTDOWN);
    done.fd = capture_done_fd(r.capture);
    g_assert_cmpint(poll(&done, 1, 60000), ==, 1);
    add(&r, &d, &late);
    session_finish(d.session, &d.result);
    g_assert_error(d.result.error, AGENT_ERROR,
                   AGENT_ERROR_CLOSED);
    clear(&d);
    capture_finish(r.capture, &result);
    g_assert_no_error(result.error);
    fake_clear(&r.f);
}

/* Records of a dump: the last ones, without a hole; returns the first. */
static uint64_t check_dump(const char *path, uint64_t records, uint64_t end)
{
    struct btrail_trace_status status;
    struct btrail_cursor *cursor;
    struct btrail_trace *trace;
    struct btrail_batch b;
    uint64_t first = UINT64_MAX, at = 0, got = 0;
    bool ended = false;
    int ret;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete);
    g_assert_cmpuint(status.files, ==, 1);
    g_assert_cmpuint(status.bad_chunks + status.missing_chunks +
                     status.skipped_bytes + status.cut_bytes, ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        size_t i;

        if (b.event && b.event->type == BTRAIL_EVENT_GAP) {
            /* What the ring has forgotten, and nothing else */
            g_assert_cmpuint(b.event->reason, ==, BTRAIL_GAP_OVERWRITTEN);
            g_assert_cmpuint(got, ==, 0);
        }
        for (i = 0; i < b.count; i++) {
            struct btrail_record r;

            if (!got++) {
                first = at = b.index;
            }
            make_record(at, &r);
            g_assert_cmphex(b.records[i].from, ==, r.from);
            g_assert_cmphex(b.records[i].to, ==, r.to);
            g_assert_cmphex(b.cr3, ==, cr3_of(at));
            g_assert_cmpuint(b.index + i, ==, at++);
        }
        ended = b.event && b.event->type == BTRAIL_EVENT_END;
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    g_assert_true(ended);
    g_assert_cmpuint(at, ==, end);
    g_assert_cmpuint(got, ==, records);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
    return first;
}

/* The number of a trigger that has acted, or -1 */
static int take_fired(struct session *s)
{
    struct trigger_hit hit;

    return session_take_fired(s, &hit) ? (int)hit.trigger : -1;
}

static uint64_t dump(struct session *s, const char *path, uint64_t end)
{
    struct session_dump d = { .why = NULL };
    GError *error = NULL;
    uint64_t first;

    g_assert_true(session_dump(s, path, &d, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(d.bytes, >, 0);
    first = check_dump(path, d.records, end);
    g_assert_cmpint(g_unlink(path), ==, 0);
    return first;
}

/* Exactly one piece of the description says why. */
static void check_why(const struct btrail_trace *trace, const char *why)
{
    const char *json;
    unsigned found = 0;

    for (unsigned i = 0; !btrail_trace_meta(trace, i, &json, NULL); i++) {
        g_autoptr(JsonNode) node = btrail_json_parse_object(json);
        const char *text = btrail_json_string(json_node_get_object(node),
                                              "why");

        found += text && !strcmp(text, why);
    }
    g_assert_cmpuint(found, ==, 1);
}

/* The last records, dumped while it runs and after its end */
static void test_last(gconstpointer opaque)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *path = sample_path();
    struct session_settings options = {
        .mode = SESSION_LAST,
        .folder = folder,
        .limit = *(const struct session_limit *)opaque,
    };
    struct btrail_code_item item = { .type = BTRAIL_CODE_BYTES, .number = 1 };
    struct session_dump d = { .why = NULL };
    g_autoptr(GError) error = NULL;
    struct session *s;
    struct btrail_code *code;
    struct btrail_trace *trace;
    struct pollfd done = { .events = POLLIN };
    struct session_result result;
    uint64_t first = 0;
    struct rig r;
    unsigned i;

    options.metadata = json_object_new();
    s = session_new(&options, NULL);
    json_object_unref(options.metadata);
    g_assert_false(session_dump(s, path, &d, &error));
    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 16);
    capture_add(r.capture, s);
    ready(&r);
    fake_publish_code(&r.f, 0, &item, 77);
    item = (struct btrail_code_item) {
        .type = BTRAIL_CODE_PAGE, .cr3 = CR3_A, .linear = 0x400000,
        .number = 1,
    };
    fake_publish_code(&r.f, 0, &item, 0);
    for (i = 0; i < 6; i++) {
        publish(&r, 200);
        first = dump(s, path, r.next);
    }
    if (options.limit.records || options.limit.ns) {
        /*
         * It has these, and some more: the ring drops whole files, and a busy
         * writer begins them late.  A record takes a nanosecond.
         */
        g_assert_cmpuint(r.next - first, >=, 20000);
        g_assert_cmpuint(r.next - first, <=, 90000);
    }
    finish_capture(&r);
    done.fd = session_done_fd(s);
    g_assert_cmpint(poll(&done, 1, 60000), ==, 1);
    dump(s, path, r.next);
    /* Code that was sent once is in each dump, and so is why it was made. */
    d.why = "trigger \"x\"";
    g_assert_true(session_dump(s, path, &d, NULL));
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    check_why(trace, d.why);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_cmpint(read_code(code, r.next - 1, 0x400000), ==, 77);
    btrail_code_close(code);
    btrail_trace_close(trace);
    /* A file that is there is not written to. */
    g_clear_error(&error);
    g_assert_false(session_dump(s, path, &d, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_OUTPUT);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_cmpuint(count_files(folder), >=, 2);
    session_finish(s, &result);
    g_assert_no_error(result.error);
    g_assert_cmpuint(count_files(folder), ==, 0);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
}

/* The dump of a trigger has what was before it, however late it is written. */
static void test_trigger_dump(void)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *path = sample_path();
    struct trigger trigger = { .action = TRIGGER_DUMP };
    struct session_settings options = {
        .mode = SESSION_LAST,
        .folder = folder,
        .limit = { 16 << 20, 20000, 0 },
        .triggers = &trigger, .n_triggers = 1,
        .metadata = json_object_new(),
    };
    const uint64_t at = 400 * SLAB;
    struct session_result result;
    struct btrail_record record;
    struct session *s;
    struct rig r;
    unsigned i;

    make_record(at, &record);
    trigger.address = record.to;
    s = session_new(&options, NULL);
    json_object_unref(options.metadata);
    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 16);
    capture_add(r.capture, s);
    ready(&r);
    publish(&r, 2000);
    drain(&r);
    g_assert_cmpint(take_fired(s), ==, 0);
    g_assert_cmpuint(dump(s, path, r.next), <=, at - 20000);
    /* Then it is a ring again. */
    for (i = 0; i < 2; i++) {
        publish(&r, 1000);
        g_assert_cmpuint(r.next - dump(s, path, r.next), >=, 20000);
    }
    g_assert_cmpuint(r.next - dump(s, path, r.next), <=, 90000);
    finish_capture(&r);
    session_finish(s, &result);
    g_assert_no_error(result.error);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
}

/* From one branch's target to another's: the second ends the session. */
static void test_triggers(void)
{
    struct trigger triggers[] = {
        { .action = TRIGGER_START },
        { .action = TRIGGER_STOP },
        { .action = TRIGGER_DUMP, .hits = 2 },
    };
    struct session_settings options = {
        .triggers = triggers, .n_triggers = 2,
    };
    struct session_settings ends = {
        .triggers = triggers + 1, .n_triggers = 2,
    };
    struct client first, second;
    struct btrail_record record;
    struct pollfd fired = { .events = POLLIN };
    struct rig r;

    make_record(250, &record);
    triggers[0].address = record.to;
    make_record(1234, &record);
    triggers[1].address = record.to;
    make_record(600, &record);
    triggers[2].address = record.to;
    start(&r, 1, BTRAIL_OVERFLOW_PAUSE, 0);
    add(&r, &first, &options);
    add(&r, &second, &ends);
    ready(&r);
    publish(&r, 20);
    /* It ends by itself. */
    finish(&second);
    check(second.path, want_all, 0, 1235, 0, 0, 0);
    g_assert_cmpuint(second.result.reason, ==, BTRAIL_END_STOPPED);
    fired.fd = session_fired_fd(first.session);
    g_assert_cmpint(poll(&fired, 1, 60000), ==, 1);
    g_assert_cmpint(take_fired(first.session), ==, 0);
    g_assert_cmpint(take_fired(first.session), ==, 1);
    g_assert_cmpint(take_fired(first.session), ==, -1);
    g_assert_cmpint(poll(&fired, 1, 0), ==, 0);
    finish_capture(&r);
    finish(&first);
    check(first.path, want_all, 250, 1235, 0, 0, 0);
    clear(&first);
    clear(&second);
}

/* A folder that does not exist */
static void test_no_folder(void)
{
    struct session_settings options = {
        .mode = SESSION_LAST,
        .folder = "/dev/null/not",
        .limit.bytes = 1 << 20,
        .metadata = json_object_new(),
    };
    g_autoptr(GError) error = NULL;

    g_assert_null(session_new(&options, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_OUTPUT);
    json_object_unref(options.metadata);
}

/* Records of vCPU 0 that a file has, once that has not changed for a while */
static uint64_t written(const char *path)
{
    struct btrail_stream_info info = { 0 };
    struct btrail_trace *trace;
    GStatBuf before, after;

    do {
        g_assert_cmpint(g_stat(path, &before), ==, 0);
        g_usleep(50000);
        g_assert_cmpint(g_stat(path, &after), ==, 0);
    } while (before.st_size != after.st_size);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_stream(trace, 0, &info);
    btrail_trace_close(trace);
    return info.end_index;
}

/*
 * What is written was returned to the producer before: a process that takes
 * over from one that was killed drains the rest, and must not have any twice.
 */
static void test_returned(void)
{
    enum { RECORDS = 16384, SLABS = 12 };
    g_autofree struct btrail_record *records = g_new0(struct btrail_record,
                                                      RECORDS);
    const struct btrail_shm_header header = { .vcpus = 1 };
    struct btrail_budget *budget = btrail_budget_new(1 << 20);
    const uint64_t none = 0;
    const struct session_source source = {
        .header = &header,
        .beginning = true,
        .indices = &none,
        .budget = budget,
        .wake_fd = -1,
    };
    const struct session_ending ending = {
        .reason = BTRAIL_END_STOPPED,
    };
    struct session_settings options = { 0 };
    struct client c;
    bool within = false;

    make(&c, &options);
    session_added(c.session);
    session_begin(c.session, &source);
    for (uint64_t i = 0; i < SLABS; i++) {
        const struct btrail_slab slab = {
            .first_index = i * RECORDS,
            .records = records,
            .n_records = RECORDS,
        };
        struct btrail_checked_slab checked;

        /* Blocks of what nothing makes smaller end within slabs. */
        for (unsigned k = 0; k < RECORDS; k++) {
            records[k].from = (uint64_t)g_test_rand_int() << 16;
            records[k].to = (uint64_t)g_test_rand_int() << 16;
        }
        g_assert_true(btrail_slab_check(&slab, slab.first_index, &checked));
        g_assert_cmpint(session_slab(c.session, 0, &checked,
                                     slab.first_index, 0), ==, 0);
        g_assert_cmpuint(written(c.path), <=, slab.first_index);
        session_tick(c.session, false);
        within |= written(c.path) % RECORDS;
    }
    g_assert_true(within);
    session_tick(c.session, true);
    g_assert_cmpuint(written(c.path), ==, SLABS * RECORDS);
    session_end_stream(c.session, 0, SLABS * RECORDS, 0,
                       BTRAIL_END_STOPPED);
    session_end(c.session, &ending);
    finish(&c);
    clear(&c);
    btrail_budget_unref(budget);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        struct session_limit limit;
    } limits[] = {
        { "bytes", { .bytes = 1 << 20 } },
        { "records", { .bytes = 1 << 20, .records = 20000 } },
        { "time", { .bytes = 1 << 20, .ns = 20000 } },
    };
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session/several", test_several);
    g_test_add_func("/session/come-and-go", test_come_and_go);
    g_test_add_func("/session/gaps", test_gaps);
    g_test_add_func("/session/resume", test_resume);
    g_test_add_func("/session/resume-nothing", test_resume_nothing);
    g_test_add_func("/session/code", test_code);
    g_test_add_func("/session/description", test_description);
    g_test_add_func("/session/no-names", test_no_names);
    g_test_add_func("/session/nothing", test_nothing);
    g_test_add_func("/session/returned", test_returned);
    g_test_add_func("/session/triggers", test_triggers);
    for (i = 0; i < G_N_ELEMENTS(limits); i++) {
        g_autofree char *name = g_strdup_printf("/session/last/%s",
                                                limits[i].name);

        g_test_add_data_func(name, &limits[i].limit, test_last);
    }
    g_test_add_func("/session/trigger-dump", test_trigger_dump);
    g_test_add_func("/session/last/no-folder", test_no_folder);
    return g_test_run();
}
