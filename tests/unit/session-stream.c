/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of drain/session-stream.h: whatever numbers a session gives to its
 * records, each has the code that it was made with
 *
 * A capture has one page, whose content changes at random records.  What the
 * trace says of each record is compared with that.
 */

#include <string.h>

#include "backtrail/code.h"
#include "drain/session-stream.h"
#include "trace-samples.h"

#define BUDGET  (UINT64_C(64) << 20)
#define KERNEL  UINT64_C(0xffffffff81000000)
#define PAGE    UINT64_C(0x400000)
#define CR3     0x1000

enum { SLABS = 12, MOST = 30 };

/**
 * struct scene - a capture of vCPU 0, and what a session knows of it
 * @first:   index of the first record that this agent gets
 * @end:     after the last one
 * @base:    the capture's index as the session begins
 * @start:   of the session, where it continues; 0 if it does not
 * @whole:   the session keeps the capture's numbers
 * @user:    it wants only user mode
 * @early:   how many slabs code comes before the records that execute it
 * @reason:  of what is missing before the first slab
 */
struct scene {
    uint64_t first, end, base, start;
    bool whole, user;
    unsigned early;
    uint16_t reason;
    GArray *changes;            /* of uint64_t: number i brings content i + 1 */
    uint64_t slabs[SLABS + 1];  /* where each begins */
};

struct rig {
    char *path;
    struct btrail_budget *budget;
    struct btrail_store *store;
    struct session_streams s;
    unsigned items, changes;
};

static bool is_user(uint64_t index)
{
    return index % 7 < 4;
}

static struct btrail_record record_of(uint64_t index)
{
    uint64_t base = is_user(index) ? PAGE : KERNEL;

    return (struct btrail_record) { base + index % 4096, base + 1, 0 };
}

static void begin(struct rig *r, const struct scene *scene)
{
    const struct session_filter filter = {
        .privilege = scene->user ? BTRAIL_PRIVILEGE_USER : 0,
    };
    struct btrail_store_options options = { 0 };

    memset(r, 0, sizeof(*r));
    r->path = sample_path();
    options.path = r->path;
    options.begin = scene->start || scene->whole ? BTRAIL_GAP_AGENT_LOST : 0;
    g_assert_cmpint(btrail_store_open(&r->store, &options), ==, 0);
    r->budget = btrail_budget_new_fixed(BUDGET, 4);
    r->s.output = output_new(r->store, NULL, 10);
    r->s.filtering = filtering_new(&filter, NULL, NULL);
    r->s.code = session_code_new(r->s.output, r->budget, scene->user);
    r->s.whole = r->s.anywhere = scene->whole;
    r->s.resume = &scene->start;
    r->s.n_resume = scene->start ? 1 : 0;
    session_streams_init(&r->s, 1, &scene->base);
}

static void end(struct rig *r)
{
    session_streams_end_code(&r->s);
    session_code_flush(r->s.code);
    session_code_free(r->s.code);
    g_assert_cmpint(session_streams_flush(&r->s), ==, 0);
    output_finish(r->s.output);
    session_streams_clear(&r->s);
    filtering_free(r->s.filtering);
    output_free(r->s.output);
    g_assert_cmpint(btrail_store_close(r->store, NULL), ==, 0);
    btrail_budget_unref(r->budget);
}

static void add_item(struct rig *r, const struct btrail_code_item *item,
                     const uint8_t *page)
{
    session_streams_code(&r->s, 0, r->items++, item, page);
}

/* All changes before a record of the capture */
static void add_code(struct rig *r, const struct scene *scene, uint64_t to)
{
    for (; r->changes < scene->changes->len; r->changes++) {
        uint64_t index = g_array_index(scene->changes, uint64_t, r->changes);
        struct btrail_code_item item = {
            .type = BTRAIL_CODE_BYTES, .number = r->changes + 1,
        };
        uint8_t page[BTRAIL_CODE_PAGE_SIZE];

        if (index >= to) {
            break;
        }
        memset(page, r->changes + 1, sizeof(page));
        add_item(r, &item, page);
        item = (struct btrail_code_item) {
            .type = BTRAIL_CODE_PAGE, .index = index, .cr3 = CR3,
            .linear = PAGE, .number = r->changes + 1,
        };
        add_item(r, &item, NULL);
    }
}

static void add_slab(struct rig *r, const struct scene *scene, unsigned n)
{
    uint64_t first = scene->slabs[n];
    struct btrail_record records[MOST];
    const struct btrail_event time = {
        .index = first, .type = BTRAIL_EVENT_TIME,
        .data = { 1000 + n, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = {
        .first_index = first, .cr3 = CR3, .records = records,
        .n_records = scene->slabs[n + 1] - first, .events = &time,
        .n_events = 1,
    };
    struct btrail_checked_slab checked;

    for (size_t i = 0; i < slab.n_records; i++) {
        records[i] = record_of(first + i);
    }
    g_assert_true(btrail_slab_check(&slab, n ? first : scene->base, &checked));
    g_assert_cmpint(session_streams_slab(&r->s, 0, &checked,
                                         n ? first : scene->base,
                                         n ? BTRAIL_GAP_CORRUPT :
                                         scene->reason), ==, 0);
}

/* What is read */
struct seen {
    const struct scene *scene;
    struct btrail_code *code;
    uint64_t next;              /* record of the capture */
    uint64_t index;             /* of the session */
};

/* The content at a record of the capture; -1 if there was none yet */
static int content_at(const struct scene *scene, uint64_t index)
{
    int content = -1;

    for (unsigned i = 0; i < scene->changes->len; i++) {
        if (g_array_index(scene->changes, uint64_t, i) <= index) {
            content = i + 1;
        }
    }
    return content;
}

static void see(void *opaque, const struct btrail_batch *b)
{
    struct seen *seen = opaque;
    const struct scene *scene = seen->scene;

    for (size_t i = 0; i < b->count; i++) {
        struct btrail_record wanted;
        uint8_t byte;
        int n;

        while (scene->user && !is_user(seen->next)) {
            seen->next++;
        }
        wanted = record_of(seen->next);
        g_assert_cmpuint(b->index + i, ==, scene->whole ? seen->next :
                         seen->index);
        g_assert_cmphex(b->records[i].from, ==, wanted.from);
        g_assert_cmphex(b->records[i].to, ==, wanted.to);
        n = btrail_code_read(seen->code, 0, b->index + i, CR3, PAGE, &byte, 1);
        g_assert_cmpint(n > 0 ? byte : -1, ==, content_at(scene, seen->next));
        seen->next++;
        seen->index++;
    }
}

static void check(const char *path, const struct scene *scene)
{
    struct seen seen = { scene, NULL, scene->first, scene->start };
    struct sample_end sample_end;
    struct btrail_trace *trace;
    uint64_t last = scene->end;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_code_open(&seen.code, trace), ==, 0);
    g_assert_true(sample_walk(trace, 0, see, &seen, &sample_end));
    while (scene->user && last > seen.next && !is_user(last - 1)) {
        last--;
    }
    g_assert_cmpuint(seen.next, ==, last);
    g_assert_cmpuint(sample_end.bad_chunks, ==, 0);
    btrail_code_close(seen.code);
    btrail_trace_close(trace);
}

static void run(struct scene *scene)
{
    struct rig r;
    uint64_t index = scene->first;

    scene->changes = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (unsigned i = 0; i <= SLABS; i++) {
        scene->slabs[i] = index;
        index += i < SLABS ? g_test_rand_int_range(1, MOST + 1) : 0;
    }
    scene->end = index;
    index = scene->first + g_test_rand_int_range(0, 3);
    while (index < scene->end && scene->changes->len < 200) {
        g_array_append_val(scene->changes, index);
        index += g_test_rand_int_range(0, 20);
    }
    begin(&r, scene);
    for (unsigned n = 0; n < SLABS; n++) {
        add_code(&r, scene, scene->slabs[MIN(n + 1 + scene->early, SLABS)]);
        add_slab(&r, scene, n);
    }
    end(&r);
    check(r.path, scene);
    sample_remove(r.path);
    g_array_unref(scene->changes);
}

static void run_all(const struct scene *scene)
{
    for (unsigned user = 0; user < 2; user++) {
        for (unsigned early = 0; early < 3; early++) {
            struct scene s = *scene;

            s.user = user && !scene->whole;
            s.early = early;
            run(&s);
        }
    }
}

static void test_whole(void)
{
    run_all(&(struct scene) { .whole = true });
    /* An agent before this one has drained the rest. */
    run_all(&(struct scene) {
        .whole = true, .first = 5000, .reason = BTRAIL_GAP_AGENT_LOST,
    });
}

/* It begins while the capture goes on. */
static void test_joins(void)
{
    run_all(&(struct scene) {
        .first = 5000, .base = 5000, .reason = BTRAIL_GAP_CORRUPT,
    });
}

/*
 * It continues with another agent, which learns the capture's numbers from the
 * first slab: code that came before that, too, is of the records after it.
 */
static void test_resumes(void)
{
    run_all(&(struct scene) {
        .first = 5000, .start = 300, .reason = BTRAIL_GAP_AGENT_LOST,
    });
}

/* The same of a session that begins with such an agent */
static void test_begins_late(void)
{
    run_all(&(struct scene) {
        .first = 5000, .reason = BTRAIL_GAP_AGENT_LOST,
    });
}

/* A vCPU that the session does not want has neither records nor code. */
static void test_unwanted(void)
{
    static const uint32_t other[] = { 1 };
    const struct session_filter filter = { .vcpus = other, .n_vcpus = 1 };
    struct scene scene = { .changes = g_array_new(FALSE, FALSE, 8) };
    struct btrail_code_page page;
    struct btrail_trace *trace;
    struct btrail_code *code;
    uint64_t first = 0;
    struct rig r;

    g_array_append_val(scene.changes, first);
    scene.slabs[1] = 10;
    begin(&r, &scene);
    filtering_free(r.s.filtering);
    r.s.filtering = filtering_new(&filter, NULL, NULL);
    add_code(&r, &scene, 1);
    add_slab(&r, &scene, 0);
    g_assert_true(session_streams_ended(&r.s, 0));
    end(&r);
    g_assert_cmpuint(r.s.records, ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, r.path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_cmpint(btrail_code_page(code, 0, &page), ==, -BTRAIL_ERR_END);
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(r.path);
    g_array_unref(scene.changes);
}

static void count_events(void *opaque, const struct btrail_batch *b)
{
    unsigned *events = opaque;

    g_assert_nonnull(b->event);
    g_assert_cmpuint(b->event->index, ==, 300);
    /* The reader adds a GAP for the records before, which are elsewhere. */
    g_assert_cmpuint(b->event->type, ==, *events == 2 ? BTRAIL_EVENT_END :
                     BTRAIL_EVENT_GAP);
    (*events)++;
}

/* An agent took over and nothing was recorded any more: it says that. */
static void test_resumes_nothing(void)
{
    struct scene scene = {
        .start = 300, .changes = g_array_new(FALSE, FALSE, 8),
    };
    struct sample_end sample_end;
    struct btrail_code_page page;
    struct btrail_trace *trace;
    struct btrail_code *code;
    unsigned events = 0;
    uint64_t first = 0;
    struct rig r;

    g_array_append_val(scene.changes, first);
    begin(&r, &scene);
    add_code(&r, &scene, 1);
    g_assert_false(session_streams_ended(&r.s, 0));
    g_assert_cmpint(session_streams_end(&r.s, 0, 0, 0, BTRAIL_END_STOPPED),
                    ==, 0);
    g_assert_true(session_streams_ended(&r.s, 0));
    end(&r);
    g_assert_cmpint(btrail_trace_open(&trace, r.path), ==, 0);
    g_assert_true(sample_walk(trace, 0, count_events, &events, &sample_end));
    g_assert_cmpuint(events, ==, 3);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    g_assert_cmpint(btrail_code_page(code, 0, &page), ==, 0);
    g_assert_cmpuint(page.index, ==, 300);
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(r.path);
    g_array_unref(scene.changes);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-stream/whole", test_whole);
    g_test_add_func("/session-stream/joins", test_joins);
    g_test_add_func("/session-stream/resumes", test_resumes);
    g_test_add_func("/session-stream/begins-late", test_begins_late);
    g_test_add_func("/session-stream/resumes-nothing", test_resumes_nothing);
    g_test_add_func("/session-stream/unwanted", test_unwanted);
    return g_test_run();
}
