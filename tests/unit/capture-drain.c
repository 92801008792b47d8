/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining the memory of a fake producer by hand: what sessions get, in which
 * order, what is given back, and what is no slab or item of code
 */

#include <unistd.h>

#include "backtrail/code.h"
#include "drain/capture-drain.h"
#include "drain/session.h"
#include "fake-producer.h"
#include "lib/agent/budget.h"
#include "trace-samples.h"
#include "util/clock.h"
#include "util/event-fd.h"

#define VCPUS   3
#define SLABS   64
#define ITEMS   256
#define MIB     (UINT64_C(1) << 20)

/* A capture without a thread and without a scanner */
struct rig {
    struct fake_producer f;
    struct capture_members members;
    struct capture_names names;
    struct capture_drain d;
    struct btrail_budget *budget;
    int wake_fd;
};

/**
 * struct client - a session, and what it has got
 * @next:    of each vCPU: the record that must come next
 * @records: of all vCPUs
 * @gaps:    GAP events, and the last one
 */
struct client {
    struct session *session;
    char *path;
    uint64_t next[VCPUS];
    uint64_t records;
    unsigned gaps;
    struct btrail_event gap;
    struct btrail_stream_observer observer;
};

/* There is a producer, and nobody drains it yet. */
static void make(struct rig *r, uint32_t policy, uint32_t code_items)
{
    *r = (struct rig) {
        .budget = btrail_budget_new(MIB), .wake_fd = event_fd_new(),
    };
    fake_init_code(&r->f, VCPUS, SLABS, policy, code_items);
    capture_members_init(&r->members);
    capture_names_init(&r->names, &r->members);
}

static void attach(struct rig *r)
{
    struct drain_connection *connection;
    g_autoptr(GError) error = NULL;

    fake_hello(&r->f);
    connection = drain_connection_accept(r->f.agent_sock, 10000, -1, &error);
    g_assert_no_error(error);
    capture_drain_init(&r->d, connection, &r->members, &r->names);
}

static void stop(struct rig *r)
{
    capture_drain_clear(&r->d);
    capture_names_clear(&r->names);
    capture_members_clear(&r->members);
    btrail_budget_unref(r->budget);
    close(r->wake_fd);
    fake_clear(&r->f);
}

/* Records are those that fake_publish() makes, without a hole. */
static void got_records(void *opaque, unsigned vcpu,
                        const struct btrail_record *records, size_t n)
{
    struct client *c = opaque;

    for (size_t i = 0; i < n; i++) {
        g_assert_cmpuint(records[i].from, ==, c->next[vcpu]++);
    }
    c->records += n;
}

static void got_event(void *opaque, unsigned vcpu,
                      const struct btrail_event *e)
{
    struct client *c = opaque;

    if (e->type == BTRAIL_EVENT_GAP) {
        c->next[vcpu] += e->data[0];
        c->gap = *e;
        c->gaps++;
    }
}

static uint64_t entry(void *opaque, unsigned vcpu, uint64_t cr3, uint64_t from,
                      uint64_t to)
{
    return BTRAIL_PSEUDO_SYSCALL;
}

/* A session joins before the first record. */
static void join(struct rig *r, struct client *c,
                 struct session_settings settings)
{
    static const uint64_t indices[VCPUS];
    const struct session_source source = {
        .header = &r->d.connection->header,
        .beginning = true,
        .indices = indices,
        .budget = r->budget,
        .wake_fd = r->wake_fd,
        .entry = entry,
    };
    struct btrail_store_options store = { 0 };
    g_autoptr(JsonObject) metadata = json_object_new();
    g_autoptr(GError) error = NULL;

    *c = (struct client) {
        .path = sample_path(),
        .observer = {
            .records = got_records, .event = got_event, .opaque = c,
        },
    };
    store.path = c->path;
    g_assert_cmpint(btrail_store_open(&settings.store, &store), ==, 0);
    settings.metadata = metadata;
    settings.observer = &c->observer;
    c->session = session_new(&settings, &error);
    g_assert_no_error(error);
    session_added(c->session);
    session_begin(c->session, &source);
    capture_members_add(&r->members, c->session);
}

/* Its file is complete; the caller removes it. */
static void leave(struct rig *r, struct client *c)
{
    const struct session_ending ending = { .reason = BTRAIL_END_STOPPED };
    struct session_result result;

    capture_members_remove(&r->members, c->session);
    session_end(c->session, &ending);
    session_finish(c->session, &result);
    g_assert_no_error(result.error);
}

static void begin(struct rig *r, struct client *c, uint32_t policy,
                  uint32_t code_items)
{
    make(r, policy, code_items);
    attach(r);
    join(r, c, (struct session_settings) { 0 });
}

static void end(struct rig *r, struct client *c)
{
    leave(r, c);
    sample_remove(c->path);
    stop(r);
}

/* Slabs of 10 records each, from this record on */
static void publish(struct rig *r, unsigned vcpu, uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        fake_publish(&r->f, vcpu, first + 10 * i, 10, NULL, 0);
    }
}

static unsigned drain(struct rig *r, bool all)
{
    g_autoptr(GError) error = NULL;
    unsigned n = 0;

    g_assert_true(capture_drain_slabs(&r->d, all, &n, &error));
    g_assert_no_error(error);
    return n;
}

static void drain_fails(struct rig *r, const char *why)
{
    g_autoptr(GError) error = NULL;
    unsigned n = 0;

    g_assert_false(capture_drain_slabs(&r->d, true, &n, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_assert_nonnull(strstr(error->message, why));
}

/* How many slabs the producer has got back */
static uint64_t given_back(struct rig *r, unsigned vcpu)
{
    return fake_vcpu(&r->f, vcpu)->tail[0];
}

/* A vCPU with much to drain does not keep the others waiting. */
static void test_some(void)
{
    struct client c;
    struct rig r;
    unsigned n, some;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    g_assert_false(capture_drain_heads_moved(&r.d));
    g_assert_cmpuint(drain(&r, false), ==, 0);
    publish(&r, 2, 0, 1);
    g_assert_true(capture_drain_heads_moved(&r.d));
    publish(&r, 0, 0, 50);
    some = n = drain(&r, false);
    g_assert_cmpuint(n, >, 1);
    g_assert_cmpuint(n, <, 51);
    g_assert_cmpuint(given_back(&r, 0), ==, n - 1);
    g_assert_cmpuint(given_back(&r, 2), ==, 1);
    g_assert_cmpuint(c.next[0], ==, 10 * (n - 1));
    g_assert_cmpuint(c.next[2], ==, 10);
    g_assert_true(capture_drain_heads_moved(&r.d));
    while ((n = drain(&r, false))) {
        some += n;
    }
    g_assert_cmpuint(some, ==, 51);
    g_assert_cmpuint(c.next[0], ==, 500);
    g_assert_false(capture_drain_heads_moved(&r.d));
    g_assert_cmpuint(r.d.records, ==, 510);
    end(&r, &c);
}

static void test_all(void)
{
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    publish(&r, 0, 0, SLABS);
    publish(&r, 1, 0, 40);
    g_assert_cmpuint(drain(&r, true), ==, SLABS + 40);
    g_assert_cmpuint(given_back(&r, 0), ==, SLABS);
    g_assert_cmpuint(given_back(&r, 1), ==, 40);
    g_assert_cmpuint(c.next[0], ==, 10 * SLABS);
    g_assert_cmpuint(c.next[1], ==, 400);
    /* Slabs come around. */
    publish(&r, 0, 10 * SLABS, 3);
    g_assert_cmpuint(drain(&r, true), ==, 3);
    g_assert_cmpuint(c.next[0], ==, 10 * SLABS + 30);
    g_assert_cmpuint(c.gaps, ==, 0);
    end(&r, &c);
}

/* What others have drained is not drained again, and is elsewhere. */
static void test_attached(void)
{
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    publish(&r, 0, 0, 5);
    fake_vcpu(&r.f, 0)->tail[0] = 2;
    g_assert_cmpuint(drain(&r, true), ==, 3);
    g_assert_cmpuint(c.records, ==, 30);
    g_assert_cmpuint(c.gaps, ==, 1);
    g_assert_cmpuint(c.gap.reason, ==, BTRAIL_GAP_AGENT_LOST);
    g_assert_cmpuint(c.gap.data[0], ==, 20);
    /* From here on all that is missing has been lost on the way. */
    publish(&r, 0, 57, 1);
    g_assert_cmpuint(drain(&r, true), ==, 1);
    g_assert_cmpuint(c.gaps, ==, 2);
    g_assert_cmpuint(c.gap.reason, ==, BTRAIL_GAP_CORRUPT);
    g_assert_cmpuint(c.gap.data[0], ==, 7);
    end(&r, &c);
}

/*
 * The oldest slab may be filled again while it is read.  Once the producer has
 * said END, it is whole.
 */
static void test_overwrite(void)
{
    for (unsigned ended = 0; ended < 2; ended++) {
        struct client c;
        struct rig r;

        begin(&r, &c, BTRAIL_OVERFLOW_OVERWRITE, 0);
        publish(&r, 0, 0, SLABS + 5);
        publish(&r, 1, 0, SLABS - 1);
        r.d.ended = ended;
        g_assert_cmpuint(drain(&r, true), ==, SLABS - !ended + SLABS - 1);
        g_assert_cmpuint(c.next[0], ==, 10 * (SLABS + 5));
        g_assert_cmpuint(c.next[1], ==, 10 * (SLABS - 1));
        g_assert_cmpuint(c.gaps, ==, 1);
        g_assert_cmpuint(c.gap.reason, ==, BTRAIL_GAP_OVERWRITTEN);
        g_assert_cmpuint(c.gap.data[0], ==, 10 * (ended ? 5 : 6));
        end(&r, &c);
    }
}

/* A vCPU that takes slabs back, or has published more than there are */
static void test_bad_heads(void)
{
    static const uint64_t heads[] = { 1, 2 + SLABS + 1, UINT64_MAX };

    for (unsigned i = 0; i < G_N_ELEMENTS(heads); i++) {
        struct client c;
        struct rig r;

        begin(&r, &c, BTRAIL_OVERFLOW_DROP, 0);
        publish(&r, 1, 0, 2);
        g_assert_cmpuint(drain(&r, true), ==, 2);
        fake_vcpu(&r.f, 1)->head = heads[i];
        drain_fails(&r, "vCPU 1 has published");
        g_assert_cmpuint(c.records, ==, 20);
        g_assert_cmpuint(given_back(&r, 1), ==, 2);
        end(&r, &c);
    }
}

/* What is not sound is not given back, and what came before it is kept. */
static void test_bad_slabs(void)
{
    struct client c;
    struct rig r;

    /* It has records that were there already. */
    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    publish(&r, 2, 0, 2);
    publish(&r, 2, 19, 1);
    drain_fails(&r, "in slab 2 of vCPU 2");
    g_assert_cmpuint(c.records, ==, 20);
    g_assert_cmpuint(given_back(&r, 2), ==, 2);
    end(&r, &c);
    /* It comes after the end. */
    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    publish(&r, 0, 0, 1);
    fake_publish_end(&r.f, 0, 10);
    g_assert_cmpuint(drain(&r, true), ==, 2);
    g_assert_true(r.d.vcpus[0].ended);
    publish(&r, 0, 10, 1);
    drain_fails(&r, "in slab 2 of vCPU 0");
    g_assert_cmpuint(c.records, ==, 10);
    end(&r, &c);
    /* It has more records than there is room for. */
    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    publish(&r, 0, 0, 1);
    fake_desc(&r.f, 0, 0)->records = FAKE_RECORDS + 1;
    drain_fails(&r, "slab 0 of vCPU 0");
    g_assert_cmpuint(given_back(&r, 0), ==, 0);
    end(&r, &c);
}

/* It is traced if it can make records, and remains so when it has made some. */
static void test_traced(void)
{
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    g_assert_false(capture_drain_is_traced(&r.d, 0));
    /* A TIME event alone, and nothing can come after it */
    fake_publish(&r.f, 0, 0, 0, NULL, 0);
    g_assert_true(capture_drain_is_traced(&r.d, 0));
    g_assert_cmpuint(drain(&r, true), ==, 1);
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_ABSENT;
    g_assert_false(capture_drain_is_traced(&r.d, 0));
    publish(&r, 0, 0, 1);
    g_assert_cmpuint(drain(&r, true), ==, 1);
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_ABSENT;
    g_assert_true(capture_drain_is_traced(&r.d, 0));
    g_assert_false(r.d.vcpus[0].ended);
    end(&r, &c);
}

/* A vCPU that waits for a slab holds records back. */
static void test_empty(void)
{
    uint64_t before = clock_ns();
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    g_assert_false(capture_drain_was_empty(&r.d, 0, before));
    publish(&r, 0, 0, 50);
    drain(&r, false);
    g_assert_false(capture_drain_was_empty(&r.d, 0, before));
    /* There was nothing of the others. */
    g_assert_true(capture_drain_was_empty(&r.d, 1, before));
    drain(&r, true);
    g_assert_true(capture_drain_was_empty(&r.d, 0, before));
    g_assert_false(capture_drain_was_empty(&r.d, 0, clock_ns() + 1));
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_WAITING;
    g_assert_false(capture_drain_was_empty(&r.d, 0, before));
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_LOSING;
    g_assert_false(capture_drain_was_empty(&r.d, 0, before));
    /* It waits no more, and the slab that says so is in progress. */
    fake_vcpu(&r.f, 0)->paused_ns = 1000;
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_RUNNING;
    for (unsigned i = 0; i < 2; i++) {
        g_assert_false(capture_drain_was_empty(&r.d, 0, before));
        drain(&r, true);
    }
    g_assert_true(capture_drain_was_empty(&r.d, 1, before));
    publish(&r, 0, 500, 1);
    g_assert_false(capture_drain_was_empty(&r.d, 0, before));
    drain(&r, true);
    g_assert_true(capture_drain_was_empty(&r.d, 0, before));
    fake_vcpu(&r.f, 0)->state = BTRAIL_VCPU_ENDED;
    g_assert_true(capture_drain_was_empty(&r.d, 0, before));
    end(&r, &c);
}

/* What counts is what a vCPU says, and only when the slabs before are drained. */
static void test_done(void)
{
    struct btrail_shm_vcpu *v;
    uint64_t before;
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    g_assert_false(capture_drain_says_done(&r.d));
    end(&r, &c);

    make(&r, BTRAIL_OVERFLOW_PAUSE, 0);
    r.f.header->accepts = BTRAIL_ACCEPTS_FLUSH;
    attach(&r);
    join(&r, &c, (struct session_settings) { 0 });
    v = fake_vcpu(&r.f, 0);
    g_assert_true(capture_drain_says_done(&r.d));
    g_assert_cmpuint(capture_drain_done(&r.d, 0), ==, 0);
    publish(&r, 0, 0, 50);
    drain(&r, true);
    /* There is nothing of the others. */
    g_assert_cmpuint(capture_drain_done(&r.d, 0), ==, 0);
    g_assert_cmpuint(capture_drain_done(&r.d, 1), !=, 0);
    publish(&r, 0, 500, 50);
    v->flushed = before = clock_ns();
    drain(&r, false);
    g_assert_cmpuint(capture_drain_done(&r.d, 0), ==, 0);
    drain(&r, true);
    g_assert_cmpuint(capture_drain_done(&r.d, 0), ==, before);
    /* It does not go back, */
    v->flushed = 1;
    drain(&r, true);
    g_assert_cmpuint(capture_drain_done(&r.d, 0), ==, before);
    /* nor is it in the future. */
    v->flushed = UINT64_MAX;
    drain(&r, true);
    g_assert_cmpuint(capture_drain_done(&r.d, 0), >, before);
    g_assert_cmpuint(capture_drain_done(&r.d, 0), <=, clock_ns());
    v->state = BTRAIL_VCPU_ENDED;
    v->flushed = 0;
    before = clock_ns();
    drain(&r, true);
    g_assert_cmpuint(capture_drain_done(&r.d, 0), >=, before);
    end(&r, &c);
}

/* Each session gets all, until it is over. */
static void test_sessions(void)
{
    static const struct trigger trigger = {
        .address = ~UINT64_C(5), .action = TRIGGER_STOP, .hits = 1,
    };
    struct session_progress p;
    struct client all, first;
    struct rig r;

    begin(&r, &all, BTRAIL_OVERFLOW_PAUSE, 0);
    publish(&r, 0, 0, 1);
    drain(&r, true);
    /* One that is alone pays for nothing: all that is done is for it. */
    session_progress(all.session, &p);
    g_assert_cmpuint(p.cpu_ns, ==, 0);
    end(&r, &all);

    begin(&r, &all, BTRAIL_OVERFLOW_PAUSE, 0);
    join(&r, &first, (struct session_settings) {
        .triggers = &trigger, .n_triggers = 1,
    });
    publish(&r, 0, 0, 2);
    g_assert_cmpuint(drain(&r, true), ==, 2);
    g_assert_cmpuint(all.next[0], ==, 20);
    g_assert_true(session_over(first.session));
    /* Record 5 has ended it, and is the last one that it has seen. */
    g_assert_cmpuint(first.records, ==, 6);
    session_progress(first.session, &p);
    g_assert_cmpuint(p.records, ==, 6);
    g_assert_cmpuint(p.filtered, ==, 4);
    session_progress(all.session, &p);
    g_assert_cmpuint(p.cpu_ns, >, 0);
    leave(&r, &first);
    sample_remove(first.path);
    end(&r, &all);
}

/* A page at 0x1000 * (number of the item + 1), all with content 1 */
static void publish_code(struct rig *r, unsigned vcpu, unsigned n)
{
    struct btrail_code_item item = { .type = BTRAIL_CODE_BYTES, .number = 1 };
    uint64_t head = fake_code(&r->f, vcpu)->head;

    if (!vcpu && !head) {
        fake_publish_code(&r->f, vcpu, &item, 0x90);
        head++;
        n--;
    }
    for (; n--; head++) {
        item = (struct btrail_code_item) {
            .type = BTRAIL_CODE_PAGE, .number = 1, .cr3 = 0x1000,
            .linear = 0x1000 * (head + 1),
        };
        fake_publish_code(&r->f, vcpu, &item, 0);
    }
}

static unsigned drain_code(struct rig *r, bool all)
{
    g_autoptr(GError) error = NULL;
    unsigned n = 0;

    g_assert_true(capture_drain_code(&r->d, all, &n, &error));
    g_assert_no_error(error);
    return n;
}

static uint64_t code_given_back(struct rig *r, unsigned vcpu)
{
    return fake_code(&r->f, vcpu)->tail[0];
}

static void test_code(void)
{
    struct client c;
    struct rig r;
    unsigned n, some;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    g_assert_cmpuint(drain_code(&r, true), ==, 0);
    publish_code(&r, 0, 200);
    publish_code(&r, 2, 1);
    some = n = drain_code(&r, false);
    g_assert_cmpuint(n, >, 1);
    g_assert_cmpuint(n, <, 201);
    g_assert_cmpuint(code_given_back(&r, 0), ==, n - 1);
    g_assert_cmpuint(code_given_back(&r, 2), ==, 1);
    while ((n = drain_code(&r, false))) {
        some += n;
    }
    g_assert_cmpuint(some, ==, 201);
    publish_code(&r, 0, ITEMS);
    g_assert_cmpuint(drain_code(&r, true), ==, ITEMS);
    g_assert_cmpuint(code_given_back(&r, 0), ==, 200 + ITEMS);
    end(&r, &c);
}

/* A ring has room for what comes until the next tick. */
static void test_urgent(void)
{
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    publish_code(&r, 0, ITEMS / 4);
    g_assert_false(capture_drain_code_urgent(&r.d));
    publish_code(&r, 2, ITEMS / 4 + 1);
    g_assert_true(capture_drain_code_urgent(&r.d));
    drain_code(&r, true);
    g_assert_false(capture_drain_code_urgent(&r.d));
    publish_code(&r, 0, ITEMS / 4 + 1);
    g_assert_true(capture_drain_code_urgent(&r.d));
    end(&r, &c);
    /* Without a ring, none is full. */
    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, 0);
    g_assert_false(capture_drain_code_urgent(&r.d));
    end(&r, &c);
}

static void code_fails(struct rig *r, const char *why)
{
    g_autoptr(GError) error = NULL;
    unsigned n = 0;

    g_assert_false(capture_drain_code(&r->d, true, &n, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_assert_nonnull(strstr(error->message, why));
}

static void test_bad_code(void)
{
    static const uint64_t heads[] = { 2, 3 + ITEMS + 1, UINT64_MAX };
    const struct btrail_code_item bad = { .type = BTRAIL_CODE_PAGE };
    struct client c;
    struct rig r;

    for (unsigned i = 0; i < G_N_ELEMENTS(heads); i++) {
        begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, ITEMS);
        publish_code(&r, 1, 3);
        g_assert_cmpuint(drain_code(&r, true), ==, 3);
        fake_code(&r.f, 1)->head = heads[i];
        code_fails(&r, "vCPU 1 has published");
        g_assert_cmpuint(code_given_back(&r, 1), ==, 3);
        end(&r, &c);
    }
    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    fake_publish_code(&r.f, 1, &bad, 0);
    code_fails(&r, "item 0 of the code of vCPU 1");
    end(&r, &c);
}

/* Another agent has drained the code that was before. */
static void test_attached_code(void)
{
    struct client c;
    struct rig r;

    make(&r, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    publish_code(&r, 0, 5);
    fake_code(&r.f, 0)->tail[0] = 3;
    attach(&r);
    join(&r, &c, (struct session_settings) { 0 });
    g_assert_cmpuint(drain_code(&r, true), ==, 2);
    g_assert_cmpuint(code_given_back(&r, 0), ==, 5);
    end(&r, &c);
}

/*
 * A session with numbers of its own gets code before the slab that executes it.
 * For others, code has time.
 */
static void test_in_step(void)
{
    struct client all, user;
    struct rig r;

    for (unsigned i = 0; i < 2; i++) {
        begin(&r, &all, BTRAIL_OVERFLOW_PAUSE, ITEMS);
        if (i) {
            join(&r, &user, (struct session_settings) {
                .filter.privilege = BTRAIL_PRIVILEGE_USER,
            });
        }
        publish_code(&r, 0, 200);
        publish_code(&r, 1, 3);
        publish(&r, 0, 0, 1);
        drain(&r, false);
        g_assert_cmpuint(code_given_back(&r, 0), ==, i ? 200 : 0);
        /* There is no slab that executes that. */
        g_assert_cmpuint(code_given_back(&r, 1), ==, 0);
        g_assert_cmpuint(all.records, ==, 10);
        if (i) {
            g_assert_cmpuint(user.records, ==, 10);
            leave(&r, &user);
            sample_remove(user.path);
        }
        end(&r, &all);
    }
}

/* A mark's page may have come by an item of any vCPU. */
static void test_in_step_all(void)
{
    static const struct trigger trigger = {
        .mark.name = (char *)"m", .action = TRIGGER_STOP, .hits = 1,
    };
    const struct btrail_code_item unknown = {
        .type = BTRAIL_CODE_PAGE, .number = 7, .cr3 = 0x1000,
        .linear = 0x5000,
    };
    const struct btrail_code_item bytes = {
        .type = BTRAIL_CODE_BYTES, .number = 7,
    };
    struct client c;
    struct rig r;

    make(&r, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    attach(&r);
    join(&r, &c, (struct session_settings) {
        .triggers = &trigger, .n_triggers = 1,
    });
    fake_publish_code(&r.f, 0, &unknown, 0);
    fake_publish_code(&r.f, 2, &bytes, 0x90);
    publish(&r, 0, 0, 1);
    drain(&r, true);
    g_assert_cmpuint(code_given_back(&r, 0), ==, 1);
    g_assert_cmpuint(code_given_back(&r, 2), ==, 1);
    /* Now that it is known, others have time again. */
    publish_code(&r, 1, 3);
    publish(&r, 0, 10, 1);
    drain(&r, true);
    g_assert_cmpuint(code_given_back(&r, 1), ==, 0);
    end(&r, &c);
}

/* One slab at a time, each time of another vCPU; then code */
static void test_little(void)
{
    struct client c;
    struct rig r;
    unsigned n, items = 0;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    publish(&r, 0, 0, 3);
    publish(&r, 2, 0, 2);
    publish_code(&r, 1, 100);
    for (unsigned i = 1; i <= 5; i++) {
        n = 0;
        g_assert_true(capture_drain_little(&r.d, &n, NULL));
        g_assert_cmpuint(n, ==, 1);
        g_assert_cmpuint(given_back(&r, 0) + given_back(&r, 2), ==, i);
        g_assert_cmpuint(code_given_back(&r, 1), ==, 0);
        if (i == 2 || i == 4) {
            g_assert_cmpuint(given_back(&r, 0), ==, i / 2);
        }
    }
    do {
        n = 0;
        g_assert_true(capture_drain_little(&r.d, &n, NULL));
        g_assert_cmpuint(n, <, 100);
        items += n;
    } while (n);
    g_assert_cmpuint(items, ==, 100);
    end(&r, &c);
}

static bool knows(struct btrail_code *code, unsigned vcpu, uint64_t index)
{
    uint8_t byte;

    return btrail_code_read(code, vcpu, index, 0x1000, 0x5000, &byte, 1) == 1;
}

/* What the producer has lost last is reported at the end. */
static void test_end_code(void)
{
    const struct btrail_code_item bytes = {
        .type = BTRAIL_CODE_BYTES, .number = 1,
    };
    const struct btrail_code_item page = {
        .type = BTRAIL_CODE_PAGE, .number = 1, .cr3 = 0x1000,
        .linear = 0x5000,
    };
    struct btrail_trace *trace;
    struct btrail_code *code;
    struct client c;
    struct rig r;

    begin(&r, &c, BTRAIL_OVERFLOW_PAUSE, ITEMS);
    fake_publish_code(&r.f, 0, &bytes, 0x90);
    fake_publish_code(&r.f, 0, &page, 0);
    fake_publish_code(&r.f, 1, &page, 0);
    publish(&r, 0, 0, 10);
    publish(&r, 1, 0, 10);
    drain_code(&r, true);
    drain(&r, true);
    fake_code(&r.f, 0)->lost_from = 40;
    capture_drain_end_code(&r.d);
    leave(&r, &c);
    g_assert_cmpint(btrail_trace_open(&trace, c.path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_true(knows(code, 0, 39));
    g_assert_false(knows(code, 0, 41));
    g_assert_false(knows(code, 0, 99));
    g_assert_true(knows(code, 1, 99));
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(c.path);
    stop(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capture-drain/some", test_some);
    g_test_add_func("/capture-drain/all", test_all);
    g_test_add_func("/capture-drain/attached", test_attached);
    g_test_add_func("/capture-drain/overwrite", test_overwrite);
    g_test_add_func("/capture-drain/bad-heads", test_bad_heads);
    g_test_add_func("/capture-drain/bad-slabs", test_bad_slabs);
    g_test_add_func("/capture-drain/traced", test_traced);
    g_test_add_func("/capture-drain/empty", test_empty);
    g_test_add_func("/capture-drain/done", test_done);
    g_test_add_func("/capture-drain/sessions", test_sessions);
    g_test_add_func("/capture-drain/code", test_code);
    g_test_add_func("/capture-drain/code/urgent", test_urgent);
    g_test_add_func("/capture-drain/code/bad", test_bad_code);
    g_test_add_func("/capture-drain/code/attached", test_attached_code);
    g_test_add_func("/capture-drain/code/in-step", test_in_step);
    g_test_add_func("/capture-drain/code/in-step/all", test_in_step_all);
    g_test_add_func("/capture-drain/code/end", test_end_code);
    g_test_add_func("/capture-drain/little", test_little);
    return g_test_run();
}
