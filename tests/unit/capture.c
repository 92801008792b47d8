/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture between a fake producer and one session: the trace must have all
 * that was published, whatever the producer does
 */

#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backtrail/code.h"
#include "drain/capture.h"
#include "util/clock.h"
#include "fake-producer.h"
#include "util/json.h"
#include "trace-samples.h"

/* A capture between a fake producer and a session with a file */
struct rig {
    struct fake_producer f;
    struct capture *capture;
    struct session *session;
    struct session_result result;
    struct cpu_limit *limit;
    const struct trigger *trigger;
    char *path;
};

static void start_code(struct rig *r, unsigned vcpus, unsigned slabs,
                       uint32_t policy, bool attached, uint32_t code_items)
{
    struct capture_options capture = {
        .attached = attached,
        .limit = r->limit,
    };
    struct session_settings options = {
        .triggers = r->trigger,
        .n_triggers = r->trigger != NULL,
    };
    struct btrail_store_options store = { 0 };

    fake_init_code(&r->f, vcpus, slabs, policy, code_items);
    r->path = sample_path();
    store.path = r->path;
    g_assert_cmpint(btrail_store_open(&options.store, &store), ==, 0);
    options.metadata = json_object_new();
    json_object_set_string_member(options.metadata, "guest", "test");
    r->session = session_new(&options, NULL);
    json_object_unref(options.metadata);
    capture.sock = r->f.agent_sock;
    r->capture = capture_start(&capture);
    capture_add(r->capture, r->session);
}

static void start(struct rig *r, unsigned vcpus, unsigned slabs,
                  uint32_t policy, bool attached)
{
    start_code(r, vcpus, slabs, policy, attached, 0);
}

static void start_ready(struct rig *r, unsigned vcpus, unsigned slabs,
                        uint32_t policy)
{
    start(r, vcpus, slabs, policy, false);
    fake_hello(&r->f);
    fake_expect(&r->f, BTRAIL_MSG_READY);
}

static void finish(struct rig *r)
{
    struct capture_result result;
    struct pollfd pfd = {
        .fd = session_done_fd(r->session), .events = POLLIN,
    };

    g_assert_cmpint(poll(&pfd, 1, 60000), ==, 1);
    pfd.fd = capture_done_fd(r->capture);
    g_assert_cmpint(poll(&pfd, 1, 60000), ==, 1);
    capture_finish(r->capture, &result);
    g_clear_error(&result.error);
    session_finish(r->session, &r->result);
}

static void clear(struct rig *r)
{
    g_clear_error(&r->result.error);
    fake_clear(&r->f);
    sample_remove(r->path);
}

/* Sums over a stream of the file */
struct stream {
    uint64_t records;
    uint64_t lost[BTRAIL_GAP_PRODUCER_LOST + 1]; /* by reason */
    unsigned gaps[BTRAIL_GAP_PRODUCER_LOST + 1];
    uint64_t end_index;
    uint16_t end;
};

/* Checks that each record is the one of its index. */
static void seen(void *opaque, const struct btrail_batch *b)
{
    struct stream *s = opaque;
    size_t i;

    g_assert_false(b->synthetic);
    g_assert_cmpuint(s->end, ==, 0);
    for (i = 0; i < b->count; i++) {
        g_assert_cmpuint(b->records[i].from, ==, b->index + i);
        g_assert_cmpuint(b->records[i].to, ==, ~(b->index + i));
    }
    s->records += b->count;
    if (b->event && b->event->type == BTRAIL_EVENT_GAP) {
        g_assert_cmpuint(b->event->reason, <, G_N_ELEMENTS(s->lost));
        s->gaps[b->event->reason]++;
        if (b->event->data[0] != BTRAIL_LOST_UNKNOWN) {
            s->lost[b->event->reason] += b->event->data[0];
        }
    } else if (b->event && b->event->type == BTRAIL_EVENT_END) {
        s->end = b->event->reason;
    }
}

/* Returns false if there is no such stream; each hole must be explained. */
static bool read_stream(const char *path, unsigned vcpu, struct stream *s,
                        bool complete)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct sample_end end;
    bool found;

    memset(s, 0, sizeof(*s));
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete == complete);
    g_assert_cmpuint(status.bad_chunks + status.missing_chunks +
                     status.skipped_bytes + status.cut_bytes, ==, 0);
    found = sample_walk(trace, vcpu, seen, s, &end);
    if (found) {
        s->end_index = end.index;
    }
    btrail_trace_close(trace);
    return found;
}

static void publish(struct rig *r, unsigned vcpu, uint64_t first_index,
                    unsigned n)
{
    fake_wait_free(&r->f, vcpu);
    fake_publish(&r->f, vcpu, first_index, n, NULL, 0);
}

/* Far more slabs than there are, on two vCPUs, and a clean end */
static void test_drain(void)
{
    struct rig r = { 0 };
    struct stream s;
    unsigned i, v;

    start_ready(&r, 3, 4, BTRAIL_OVERFLOW_PAUSE);
    for (i = 0; i < 3000; i++) {
        for (v = 0; v < 2; v++) {
            publish(&r, v, i * 100, 100);
        }
    }
    for (v = 0; v < 2; v++) {
        fake_wait_free(&r.f, v);
        fake_publish_end(&r.f, v, 300000);
    }
    fake_end(&r.f, BTRAIL_END_SHUTDOWN);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_cmpuint(r.result.reason, ==, BTRAIL_END_SHUTDOWN);
    g_assert_cmpuint(r.result.progress.records, ==, 600000);
    g_assert_cmpuint(r.result.progress.lost, ==, 0);
    g_assert_cmpuint(r.result.unexplained, ==, 0);
    g_assert_cmpuint(fake_vcpu(&r.f, 0)->tail[0], ==, 3001);
    for (v = 0; v < 2; v++) {
        g_assert_true(read_stream(r.path, v, &s, true));
        g_assert_cmpuint(s.records, ==, 300000);
        g_assert_cmpuint(s.end, ==, BTRAIL_END_STOPPED);
    }
    /* This vCPU was not traced. */
    g_assert_false(read_stream(r.path, 2, &s, true));
    clear(&r);
}

/* The description: what the caller says, what the producer says, the end */
static void test_description(void)
{
    struct rig r = { 0 };
    struct btrail_trace *trace;
    const char *text;
    JsonNode *node;
    JsonObject *o;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_DROP);
    publish(&r, 0, 0, 1);
    fake_publish_end(&r.f, 0, 1);
    fake_end(&r.f, BTRAIL_END_MIGRATED);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_cmpint(btrail_trace_open(&trace, r.path), ==, 0);
    g_assert_cmpint(btrail_trace_meta(trace, 0, &text, NULL), ==, 0);
    node = btrail_json_parse_object(text);
    g_assert_nonnull(node);
    o = json_node_get_object(node);
    g_assert_cmpstr(btrail_json_string(o, "guest"), ==, "test");
    g_assert_cmpstr(btrail_json_string(o, "session"), ==, "fake");
    g_assert_cmpstr(btrail_json_string(o, "producer"), ==, "tcg");
    g_assert_cmpstr(btrail_json_string(o, "overflow"), ==, "drop");
    g_assert_cmpstr(btrail_json_string(o, "privilege"), ==, "all");
    g_assert_cmpint(btrail_json_int(o, "tick_ns", 0), ==, 1000000);
    g_assert_false(json_object_has_member(o, "icount"));
    g_assert_cmpint(btrail_json_int(btrail_json_object(o, "start"),
                                    "monotonic", 0), ==, 1000);
    json_node_unref(node);
    g_assert_cmpint(btrail_trace_meta(trace, 1, &text, NULL), ==, 0);
    node = btrail_json_parse_object(text);
    o = btrail_json_object(json_node_get_object(node), "end");
    g_assert_cmpstr(btrail_json_string(o, "reason"), ==, "migrated");
    json_node_unref(node);
    btrail_trace_close(trace);
    clear(&r);
}

/* GAP events of the producer, and a hole without one */
static void test_holes(void)
{
    struct btrail_event gap = {
        .index = 60, .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
        .data = { 50 },
    };
    struct rig r = { 0 };
    struct stream s;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_DROP);
    publish(&r, 0, 0, 10);
    fake_publish(&r.f, 0, 60, 10, &gap, 1);
    publish(&r, 0, 75, 10);
    fake_publish_end(&r.f, 0, 85);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_cmpuint(r.result.unexplained, ==, 5);
    g_assert_cmpuint(r.result.progress.lost, ==, 55);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 30);
    g_assert_cmpuint(s.lost[BTRAIL_GAP_OVERFLOW], ==, 50);
    g_assert_cmpuint(s.lost[BTRAIL_GAP_CORRUPT], ==, 5);
    clear(&r);
}

/* The socket closes without an END: all that was published is kept. */
static void test_producer_lost(void)
{
    struct rig r = { 0 };
    struct stream s;
    unsigned i;

    start_ready(&r, 2, 8, BTRAIL_OVERFLOW_PAUSE);
    fake_vcpu(&r.f, 1)->state = BTRAIL_VCPU_RUNNING;
    for (i = 0; i < 50; i++) {
        publish(&r, 0, i * 10, 10);
    }
    fake_close(&r.f);
    finish(&r);
    g_assert_error(r.result.error, AGENT_ERROR,
                   AGENT_ERROR_CLOSED);
    g_assert_cmpuint(r.result.reason, ==, BTRAIL_END_PRODUCER_LOST);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 500);
    g_assert_cmpuint(s.gaps[BTRAIL_GAP_PRODUCER_LOST], ==, 1);
    g_assert_cmpuint(s.end, ==, BTRAIL_END_PRODUCER_LOST);
    /* A vCPU that was traced and had nothing published yet */
    g_assert_true(read_stream(r.path, 1, &s, true));
    g_assert_cmpuint(s.records, ==, 0);
    g_assert_cmpuint(s.gaps[BTRAIL_GAP_PRODUCER_LOST], ==, 1);
    g_assert_cmpuint(s.end, ==, BTRAIL_END_PRODUCER_LOST);
    clear(&r);
}

static void test_stop(void)
{
    struct rig r = { 0 };
    struct stream s;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    publish(&r, 0, 0, 10);
    capture_stop(r.capture);
    fake_expect(&r.f, BTRAIL_MSG_STOP);
    /* What comes between STOP and END is kept. */
    publish(&r, 0, 10, 10);
    fake_publish_end(&r.f, 0, 20);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 20);
    g_assert_cmpuint(s.end, ==, BTRAIL_END_STOPPED);
    clear(&r);
}

static void test_stop_ignored(void)
{
    struct rig r = { 0 };
    struct stream s;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    publish(&r, 0, 0, 10);
    capture_stop(r.capture);
    finish(&r);
    g_assert_error(r.result.error, AGENT_ERROR,
                   AGENT_ERROR_TIMEOUT);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 10);
    g_assert_cmpuint(s.end, ==, BTRAIL_END_PRODUCER_LOST);
    clear(&r);
}

static void test_stop_before_hello(void)
{
    struct rig r = { 0 };

    start(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE, false);
    capture_stop(r.capture);
    finish(&r);
    g_assert_error(r.result.error, AGENT_ERROR,
                   AGENT_ERROR_CANCELLED);
    clear(&r);
}

/* While the capture runs, the file is never more than a second late. */
static void test_flush(void)
{
    struct rig r = { 0 };
    struct stream s;
    gint64 before;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    publish(&r, 0, 0, 10);
    before = g_get_monotonic_time();
    while (!read_stream(r.path, 0, &s, false) || s.records < 10) {
        g_assert_cmpint(g_get_monotonic_time() - before, <, 3000000);
        g_usleep(50000);
    }
    /* And it has asked for what is not published. */
    fake_expect(&r.f, BTRAIL_MSG_FLUSH);
    fake_publish_end(&r.f, 0, 10);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 10);
    clear(&r);
}

#define CALL    UINT64_C(0x401000)
#define CALLED  UINT64_C(0x402000)

/* A call that returns, and one that does not */
static void make_calls(uint64_t index, struct btrail_record *record)
{
    bool call = index == 10 || index == 30;

    *record = (struct btrail_record) {
        .from = call ? CALL : index,
        .to = call ? CALLED : index == 20 ? CALL + 5 : ~index,
    };
}

static const struct trigger longer = {
    .address = CALLED, .action = TRIGGER_STOP, .longer_ns = 1000000,
};

/* A guest of two vCPUs, on the first of which a thread calls, and waits */
static void start_longer(struct rig *r, uint32_t accepts)
{
    static const struct btrail_event tasks[] = {
        { .index = 1, .type = BTRAIL_EVENT_TASK, .data = { 7 } },
        { .index = 31, .type = BTRAIL_EVENT_TASK },
    };

    r->trigger = &longer;
    start(r, 2, 4, BTRAIL_OVERFLOW_PAUSE, false);
    r->f.header->accepts = accepts;
    fake_vcpu(&r->f, 1)->state = BTRAIL_VCPU_RUNNING;
    fake_hello(&r->f);
    fake_expect(&r->f, BTRAIL_MSG_READY);
    r->f.record = make_calls;
    fake_publish(&r->f, 0, 0, 40, tasks, G_N_ELEMENTS(tasks));
}

static void end_longer(struct rig *r, unsigned index)
{
    fake_publish_end(&r->f, 0, 40);
    if (index) {
        fake_publish_end(&r->f, 1, index);
    }
    fake_end(&r->f, BTRAIL_END_STOPPED);
    finish(r);
    g_assert_no_error(r->result.error);
    clear(r);
}

/* Has the session ended by itself, within some time? */
static bool has_ended(struct rig *r, int ms)
{
    struct pollfd pfd = { .fd = session_done_fd(r->session), .events = POLLIN };

    return poll(&pfd, 1, ms) == 1;
}

/*
 * A call whose thread waits is found when the other vCPU, which is silent, is
 * known not to have returned from it.
 */
static void test_longer(void)
{
    struct rig r = { 0 };

    start_longer(&r, 0);
    fake_expect(&r.f, BTRAIL_MSG_FLUSH);
    g_assert_true(has_ended(&r, 60000));
    end_longer(&r, 0);
}

/* The producer answers several FLUSH, and so does vCPU 1 if @other. */
static void answer(struct rig *r, bool other)
{
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&r->f, BTRAIL_MSG_FLUSH);
        fake_flushed(&r->f, 0);
        if (other) {
            fake_flushed(&r->f, 1);
        }
    }
}

/* The thread returns on the other vCPU, where it has been switched to. */
static void make_return(uint64_t index, struct btrail_record *record)
{
    *record = (struct btrail_record) {
        .from = index, .to = index == 5 ? CALL + 5 : ~index,
    };
}

/*
 * The host does not run the other vCPU for as long as it wants, so that what this
 * has done is not published: here that the call has returned in time.
 */
static void test_longer_held(void)
{
    static const struct btrail_event tasks[] = {
        /* 100 us after its TIME event */
        { .index = 1, .type = BTRAIL_EVENT_TASK, .data = { 7 },
          .clock = 102000 / BTRAIL_CLOCK_NS },
        { .index = 6, .type = BTRAIL_EVENT_TASK },
    };
    struct rig r = { 0 };

    start_longer(&r, BTRAIL_ACCEPTS_FLUSH);
    answer(&r, false);
    g_assert_false(has_ended(&r, 0));
    r.f.record = make_return;
    fake_publish(&r.f, 1, 0, 10, tasks, G_N_ELEMENTS(tasks));
    answer(&r, true);
    g_assert_false(has_ended(&r, 0));
    end_longer(&r, 10);
}

/* It runs it again, and the vCPU had nothing. */
static void test_longer_answered(void)
{
    struct rig r = { 0 };

    start_longer(&r, BTRAIL_ACCEPTS_FLUSH);
    answer(&r, false);
    g_assert_false(has_ended(&r, 0));
    fake_flushed(&r.f, 1);
    g_assert_true(has_ended(&r, 60000));
    fake_publish(&r.f, 1, 0, 10, NULL, 0);
    end_longer(&r, 10);
}

/* Policy overwrite: drained at the end, and only then */
static void test_overwrite(void)
{
    struct rig r = { 0 };
    struct stream s;
    unsigned i;

    start_ready(&r, 2, 4, BTRAIL_OVERFLOW_OVERWRITE);
    for (i = 0; i < 20; i++) {
        fake_publish(&r.f, 0, i * 10, 10, NULL, 0);
    }
    fake_publish(&r.f, 1, 0, 10, NULL, 0);
    g_usleep(400000);
    g_assert_cmpuint(fake_vcpu(&r.f, 0)->tail[0], ==, 0);
    fake_publish_end(&r.f, 0, 200);
    fake_publish_end(&r.f, 1, 10);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_cmpuint(r.result.unexplained, ==, 0);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 30);
    g_assert_cmpuint(s.lost[BTRAIL_GAP_OVERWRITTEN], ==, 170);
    g_assert_cmpuint(s.end_index, ==, 200);
    g_assert_true(read_stream(r.path, 1, &s, true));
    g_assert_cmpuint(s.records, ==, 10);
    clear(&r);
}

/* The oldest slab may be half of a new one, if the producer died. */
static void test_overwrite_lost(void)
{
    struct rig r = { 0 };
    struct stream s;
    unsigned i;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_OVERWRITE);
    for (i = 0; i < 20; i++) {
        fake_publish(&r.f, 0, i * 10, 10, NULL, 0);
    }
    fake_close(&r.f);
    finish(&r);
    g_assert_error(r.result.error, AGENT_ERROR,
                   AGENT_ERROR_CLOSED);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 30);
    g_assert_cmpuint(s.lost[BTRAIL_GAP_OVERWRITTEN], ==, 170);
    g_assert_cmpuint(s.end, ==, BTRAIL_END_PRODUCER_LOST);
    clear(&r);
}

/* A new agent continues where the one before has stopped. */
static void test_attach(void)
{
    struct rig r = { 0 };
    struct stream s;
    unsigned i;

    start(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE, true);
    for (i = 0; i < 10; i++) {
        fake_publish(&r.f, 0, i * 10, 10, NULL, 0);
    }
    fake_vcpu(&r.f, 0)->tail[0] = 7;
    fake_hello(&r.f);
    fake_expect(&r.f, BTRAIL_MSG_READY);
    publish(&r, 0, 100, 10);
    fake_wait_free(&r.f, 0);
    fake_publish_end(&r.f, 0, 110);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_cmpuint(r.result.unexplained, ==, 0);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 40);
    g_assert_cmpuint(s.lost[BTRAIL_GAP_AGENT_LOST], ==, 70);
    clear(&r);
}

/* The session ends with an error, the capture is stopped, the file is sound. */
static void expect_protocol_error(struct rig *r, uint64_t records)
{
    struct stream s;

    fake_expect(&r->f, BTRAIL_MSG_STOP);
    finish(r);
    g_assert_error(r->result.error, AGENT_ERROR,
                   AGENT_ERROR_PROTOCOL);
    if (read_stream(r->path, 0, &s, true)) {
        g_assert_cmpuint(s.records, ==, records);
        g_assert_cmpuint(s.gaps[BTRAIL_GAP_PRODUCER_LOST], ==, 1);
        g_assert_cmpuint(s.end, ==, BTRAIL_END_PRODUCER_LOST);
    } else {
        g_assert_cmpuint(records, ==, 0);
    }
    clear(r);
}

static void set_head(struct rig *r, uint64_t head)
{
    __atomic_store_n(&fake_vcpu(&r->f, 0)->head, head, __ATOMIC_RELEASE);
}

static void wait_drained(struct rig *r)
{
    struct btrail_shm_vcpu *v = fake_vcpu(&r->f, 0);

    while (__atomic_load_n(&v->tail[0], __ATOMIC_ACQUIRE) != v->head) {
        g_usleep(1000);
    }
}

static void test_hostile_heads(void)
{
    static const uint64_t heads[] = { 0, 6, 1000, UINT64_MAX, 1ull << 63 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(heads); i++) {
        struct rig r = { 0 };

        start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
        publish(&r, 0, 0, 10);
        wait_drained(&r);
        set_head(&r, heads[i]);
        expect_protocol_error(&r, 10);
    }
}

static void test_hostile_tail(void)
{
    struct rig r = { 0 };

    start(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE, true);
    fake_vcpu(&r.f, 0)->tail[0] = 5;
    fake_hello(&r.f);
    fake_expect(&r.f, BTRAIL_MSG_READY);
    expect_protocol_error(&r, 0);
}

static void test_hostile_slabs(void)
{
    static const struct btrail_slab_desc descs[] = {
        { 10, 0, FAKE_RECORDS + 1, 0, { 0 } },
        { 10, 0, UINT32_MAX, UINT32_MAX, { 0 } },
        { 10, 0, 1, FAKE_EVENTS + 1, { 0 } },
        { 9, 0, 1, 0, { 0 } },
        { UINT64_MAX, 0, 2, 0, { 0 } },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(descs); i++) {
        struct rig r = { 0 };

        start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
        publish(&r, 0, 0, 10);
        wait_drained(&r);
        *fake_desc(&r.f, 0, 1) = descs[i];
        set_head(&r, 2);
        expect_protocol_error(&r, 10);
    }
}

static void test_hostile_message(void)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\n";
    struct rig r = { 0 };

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    publish(&r, 0, 0, 10);
    wait_drained(&r);
    fake_send(&r.f, text, sizeof(text), NULL, 0);
    expect_protocol_error(&r, 10);
}

/* END is sent before a stream has ended. */
static void test_no_end_event(void)
{
    struct rig r = { 0 };
    struct stream s;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    publish(&r, 0, 0, 10);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_error(r.result.error, AGENT_ERROR,
                   AGENT_ERROR_PROTOCOL);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 10);
    g_assert_cmpuint(s.end, ==, BTRAIL_END_PRODUCER_LOST);
    clear(&r);
}

/* Garbage all over the shared memory, while it is drained */
static void test_hostile_noise(void)
{
    unsigned round;

    for (round = 0; round < 20; round++) {
        struct rig r = { 0 };
        gint64 until;
        uint8_t *bytes;
        uint64_t start_at;

        start_ready(&r, 2, 4, BTRAIL_OVERFLOW_PAUSE);
        bytes = (uint8_t *)r.f.header;
        start_at = r.f.header->vcpu_offset;
        set_head(&r, 3);
        until = g_get_monotonic_time() + 20000;
        while (g_get_monotonic_time() < until) {
            uint64_t at = start_at + (uint32_t)g_test_rand_int() %
                          (r.f.total_size - start_at);

            __atomic_store_n(&bytes[at], (uint8_t)g_test_rand_int(),
                             __ATOMIC_RELAXED);
        }
        fake_close(&r.f);
        finish(&r);
        g_assert_nonnull(r.result.error);
        g_clear_error(&r.result.error);
        fake_clear(&r.f);
        sample_remove(r.path);
    }
}

/* What @size bytes of a page are full of; -1 if they are not known */
static int read_code(struct btrail_code *code, unsigned vcpu, uint64_t index,
                     uint64_t cr3, uint64_t address)
{
    uint8_t bytes[100], want[sizeof(bytes)];
    int n = btrail_code_read(code, vcpu, index, cr3, address, bytes,
                             sizeof(bytes));

    if (!n) {
        return -1;
    }
    g_assert_cmpint(n, ==, sizeof(bytes));
    memset(want, bytes[0], sizeof(want));
    g_assert_cmpmem(bytes, n, want, sizeof(want));
    return bytes[0];
}

/* Code of two vCPUs through a small ring, some of which is lost */
static void test_code(gconstpointer opaque)
{
    const uint64_t kernel = 0xffffffff81000000;
    struct btrail_code_item item = { .type = BTRAIL_CODE_BYTES };
    struct btrail_trace *trace;
    struct btrail_code *code;
    struct rig r = { 0 };
    unsigned i;

    start_code(&r, 2, 4, GPOINTER_TO_UINT(opaque), false, 3);
    fake_hello(&r.f);
    fake_expect(&r.f, BTRAIL_MSG_READY);
    for (i = 1; i <= 20; i++) {
        item.number = i;
        fake_publish_code(&r.f, 0, &item, i);
    }
    item = (struct btrail_code_item) {
        .type = BTRAIL_CODE_PAGE, .cr3 = 0x1000, .linear = 0x400000,
    };
    for (i = 1; i <= 10; i++) {
        item.number = i;
        item.index = i * 10;
        fake_publish_code(&r.f, 0, &item, 0);
    }
    item.linear = kernel;
    item.number = 15;
    fake_publish_code(&r.f, 1, &item, 0);
    item = (struct btrail_code_item) {
        .type = BTRAIL_CODE_LOST, .linear = 200, .index = 300,
    };
    fake_publish_code(&r.f, 0, &item, 0);
    item = (struct btrail_code_item) {
        .type = BTRAIL_CODE_PAGE, .cr3 = 0x1000, .linear = kernel,
        .index = 300, .number = 20,
    };
    fake_publish_code(&r.f, 0, &item, 0);
    fake_code(&r.f, 0)->lost_from = 400;
    for (i = 0; i < 2; i++) {
        fake_publish(&r.f, i, 0, 20, NULL, 0);
        fake_publish_end(&r.f, i, 20);
    }
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_no_error(r.result.error);

    g_assert_cmpint(btrail_trace_open(&trace, r.path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_cmpint(read_code(code, 0, 9, 0x1000, 0x400000), ==, -1);
    for (i = 10; i < 200; i++) {
        g_assert_cmpint(read_code(code, 0, i, 0x1007, 0x400100), ==,
                        MIN(i / 10, 10));
    }
    g_assert_cmpint(read_code(code, 0, 50, 0x2000, 0x400000), ==, -1);
    g_assert_cmpint(read_code(code, 1, 50, 0x1000, 0x400000), ==, -1);
    g_assert_cmpint(read_code(code, 1, 100, 0x9000, kernel), ==, 15);
    for (i = 200; i < 450; i++) {
        g_assert_cmpint(read_code(code, 0, i, 0x1000, 0x400000), ==, -1);
        g_assert_cmpint(read_code(code, 0, i, 0x5000, kernel + 50), ==,
                        i >= 300 && i < 400 ? 20 : -1);
    }
    g_assert_cmpuint(btrail_code_bad_pieces(code), ==, 0);
    btrail_code_close(code);
    btrail_trace_close(trace);
    clear(&r);
}

static void test_hostile_code(void)
{
    unsigned i;

    for (i = 0; i < 3; i++) {
        struct btrail_code_item item = { .type = i ? 9 : 1 };
        struct rig r = { 0 };

        start_code(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE, false, 3);
        fake_hello(&r.f);
        fake_expect(&r.f, BTRAIL_MSG_READY);
        if (i < 2) {
            fake_publish_code(&r.f, 0, &item, 0);
        } else {
            fake_code(&r.f, 0)->head = 4;
        }
        finish(&r);
        g_assert_error(r.result.error, AGENT_ERROR,
                       AGENT_ERROR_PROTOCOL);
        clear(&r);
    }
}

/*
 * The file cannot grow any more: it ends with a whole chunk, and its session
 * ends, too.  The capture continues to drain slabs, so no vCPU waits.
 */
static void test_full(void)
{
    struct pollfd done = { .events = POLLIN };
    struct rlimit old, limit;
    struct rig r = { 0 };
    struct stream s;
    uint64_t index = 0;
    unsigned i;

    signal(SIGXFSZ, SIG_IGN);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    done.fd = session_done_fd(r.session);
    limit = old;
    limit.rlim_cur = 20000;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    /* Two chunks a second, of more than 20 kB each */
    for (i = 0; i < 30; i++) {
        unsigned j;

        for (j = 0; j < 50; j++, index += 100) {
            publish(&r, 0, index, 100);
        }
        g_usleep(50000);
    }
    g_assert_cmpint(poll(&done, 1, 60000), ==, 1);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    for (i = 0; i < 100; i++, index += 100) {
        publish(&r, 0, index, 100);
    }
    fake_publish_end(&r.f, 0, index);
    fake_end(&r.f, BTRAIL_END_STOPPED);
    finish(&r);
    g_assert_error(r.result.error, AGENT_ERROR,
                   AGENT_ERROR_OUTPUT);
    if (read_stream(r.path, 0, &s, false)) {
        g_assert_cmpuint(s.records, <, index);
        g_assert_cmpuint(s.end, ==, 0);
    }
    /* More were drained than the file has. */
    g_assert_cmpuint(r.result.progress.records, ==, s.records);
    clear(&r);
}

enum ending { STOP, END, CLOSE, REMOVE };

static uint64_t tail_of(struct rig *r)
{
    return __atomic_load_n(fake_vcpu(&r->f, 0)->tail, __ATOMIC_ACQUIRE);
}

/*
 * The CPU time of some minutes is used up: a little is drained now and then,
 * and the end of the capture does not wait.  If it drained as slowly, it would
 * take longer than finish() waits.
 */
static void test_limit(gconstpointer opaque)
{
    enum ending ending = GPOINTER_TO_INT(opaque);
    struct cpu_pool *pool = cpu_pool_new();
    uint64_t now = clock_ns();
    struct capture_progress p = { 0 };
    unsigned slabs = 3000;
    struct rig r = { .limit = cpu_limit_new(pool) };
    struct stream s;
    unsigned i;

    cpu_pool_set(pool, 1, 0, now);
    cpu_limit_spend(r.limit, UINT64_C(60000000000), now);
    start(&r, 1, slabs + 1, BTRAIL_OVERFLOW_PAUSE, false);
    for (i = 0; i < slabs; i++) {
        fake_publish(&r.f, 0, i * 10, 10, NULL, 0);
    }
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_RUNNING;
    fake_hello(&r.f);
    fake_expect(&r.f, BTRAIL_MSG_READY);
    while (tail_of(&r) < 3 || !p.limited_ns) {
        g_usleep(1000);
        capture_progress(r.capture, &p);
    }
    g_assert_cmpuint(tail_of(&r), <, slabs);
    switch (ending) {
    case STOP:
        capture_stop(r.capture);
        fake_expect(&r.f, BTRAIL_MSG_STOP);
        fake_publish_end(&r.f, 0, slabs * 10);
        fake_end(&r.f, BTRAIL_END_STOPPED);
        break;
    case END:
        fake_publish_end(&r.f, 0, slabs * 10);
        fake_end(&r.f, BTRAIL_END_SHUTDOWN);
        break;
    case CLOSE:
        fake_close(&r.f);
        break;
    case REMOVE:
        capture_remove(r.capture, r.session);
        while (tail_of(&r) < slabs) {
            g_usleep(1000);
        }
        fake_publish_end(&r.f, 0, slabs * 10);
        fake_end(&r.f, BTRAIL_END_SHUTDOWN);
        break;
    }
    finish(&r);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, slabs * 10);
    clear(&r);
    cpu_limit_free(r.limit);
    cpu_pool_free(pool);
}

/* The capture is handed over: the file has all that was published, and ends. */
static void test_leave(void)
{
    struct btrail_msg msg;
    struct rig r = { 0 };
    struct stream s;

    start_ready(&r, 1, 4, BTRAIL_OVERFLOW_PAUSE);
    fake_publish(&r.f, 0, 0, FAKE_RECORDS, NULL, 0);
    fake_publish(&r.f, 0, FAKE_RECORDS, FAKE_RECORDS, NULL, 0);
    capture_detach(r.capture);
    finish(&r);
    g_assert_no_error(r.result.error);
    g_assert_cmpuint(r.result.reason, ==, 0);
    g_assert_cmpuint(r.result.unexplained, ==, 0);
    g_assert_true(read_stream(r.path, 0, &s, true));
    g_assert_cmpuint(s.records, ==, 2 * FAKE_RECORDS);
    g_assert_cmpuint(s.end_index, ==, 2 * FAKE_RECORDS);
    g_assert_cmpuint(s.end, ==, 0);
    /* The guest continues. */
    while (recv(r.f.sock, &msg, sizeof(msg), MSG_DONTWAIT) > 0) {
        g_assert_cmpuint(msg.type, !=, BTRAIL_MSG_STOP);
    }
    clear(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capture/drain", test_drain);
    g_test_add_func("/capture/description", test_description);
    g_test_add_func("/capture/holes", test_holes);
    g_test_add_func("/capture/producer-lost", test_producer_lost);
    g_test_add_func("/capture/stop", test_stop);
    g_test_add_func("/capture/stop/ignored", test_stop_ignored);
    g_test_add_func("/capture/stop/before-hello", test_stop_before_hello);
    g_test_add_func("/capture/flush", test_flush);
    g_test_add_func("/capture/longer", test_longer);
    g_test_add_func("/capture/longer/held", test_longer_held);
    g_test_add_func("/capture/longer/answered", test_longer_answered);
    g_test_add_func("/capture/overwrite", test_overwrite);
    g_test_add_func("/capture/overwrite/lost", test_overwrite_lost);
    g_test_add_func("/capture/attach", test_attach);
    g_test_add_func("/capture/hostile/heads", test_hostile_heads);
    g_test_add_func("/capture/hostile/tail", test_hostile_tail);
    g_test_add_func("/capture/hostile/slabs", test_hostile_slabs);
    g_test_add_func("/capture/hostile/message", test_hostile_message);
    g_test_add_func("/capture/hostile/no-end-event", test_no_end_event);
    g_test_add_func("/capture/hostile/noise", test_hostile_noise);
    g_test_add_data_func("/capture/code/pause",
                         GUINT_TO_POINTER(BTRAIL_OVERFLOW_PAUSE), test_code);
    g_test_add_data_func("/capture/code/overwrite",
                         GUINT_TO_POINTER(BTRAIL_OVERFLOW_OVERWRITE),
                         test_code);
    g_test_add_func("/capture/hostile/code", test_hostile_code);
    g_test_add_func("/capture/full", test_full);
    g_test_add_data_func("/capture/limit/stop", GINT_TO_POINTER(STOP),
                         test_limit);
    g_test_add_data_func("/capture/limit/end", GINT_TO_POINTER(END),
                         test_limit);
    g_test_add_data_func("/capture/limit/close", GINT_TO_POINTER(CLOSE),
                         test_limit);
    g_test_add_data_func("/capture/limit/remove", GINT_TO_POINTER(REMOVE),
                         test_limit);
    g_test_add_func("/capture/leave", test_leave);
    return g_test_run();
}
