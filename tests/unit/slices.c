/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slices that begin, nest and end at random, against what a reader finds of
 * them: with a limit, exactly those that are as long as is said, in fewer bytes
 */

#include <stdlib.h>
#include <string.h>

#include "cli/export/slices.h"
#include "timeline-reader.h"

enum { TRACKS = 5, DEPTH = 6 };

/* A slice, or with @instant something that has happened */
struct event {
    uint64_t track, begin, end, value;
    const char *name;
    unsigned depth, number;
    bool has_value, instant;
};

struct scene {
    char *bytes;
    size_t size;
    FILE *out;
    struct perfetto *p;
    struct timeline_slices *slices;
    GArray *events;             /* what there is, of those that have ended */
    struct event open[TRACKS][DEPTH];
    unsigned depth[TRACKS], numbers;
    uint64_t now;
    uint64_t first, last;       /* when something happened; 0: never */
    uint64_t instants;
};

static void begin(struct scene *s, uint64_t limit)
{
    *s = (struct scene) {
        .events = g_array_new(FALSE, FALSE, sizeof(struct event)),
    };
    s->out = open_memstream(&s->bytes, &s->size);
    s->p = perfetto_new(s->out);
    perfetto_set_limit(s->p, limit);
    s->slices = slices_new(s->p, limit);
}

static void end(struct scene *s)
{
    slices_free(s->slices);
    perfetto_free(s->p);
    fclose(s->out);
    free(s->bytes);
    g_array_unref(s->events);
}

static void note(struct scene *s)
{
    s->first = s->first ? s->first : s->now;
    s->last = s->now;
}

static void begin_slice(struct scene *s, unsigned track, const char *name,
                        const uint64_t *value)
{
    struct event *e = &s->open[track][s->depth[track]];

    *e = (struct event) {
        .track = track, .begin = s->now, .name = name, .has_value = value,
        .value = value ? *value : 0, .depth = s->depth[track]++,
        .number = s->numbers++,
    };
    note(s);
    slices_begin(s->slices, track, s->now, name, value);
}

static void end_slice(struct scene *s, unsigned track)
{
    struct event e = s->open[track][--s->depth[track]];

    e.end = s->now;
    note(s);
    g_array_append_val(s->events, e);
    slices_end(s->slices, track, s->now);
}

static void put_instant(struct scene *s, unsigned track, const char *name)
{
    struct event e = {
        .track = track, .begin = s->now, .end = s->now, .name = name,
        .instant = true, .has_value = true, .value = s->now,
    };

    note(s);
    s->instants++;
    g_array_append_val(s->events, e);
    slices_instant(s->slices, track, s->now, name, &e.value);
}

/* Times of all sizes, and some that do not pass */
static void pass(struct scene *s)
{
    if (g_test_rand_int_range(0, 5)) {
        s->now += (uint64_t)g_test_rand_int_range(1, 1000)
                  << g_test_rand_int_range(0, 14);
    }
}

/* A long one that few slices have */
static const char *rare_name(void)
{
    g_autofree char *name = g_strdup_printf(
        "%0*d", g_test_rand_int_range(1, 300), g_test_rand_int());

    return timeline_text(name);
}

static void act(struct scene *s)
{
    static const char *const names[] = { "a", "read", "vfs_read", "x\ty" };
    unsigned track = g_test_rand_int_range(0, TRACKS);
    const char *name = g_test_rand_int_range(0, 5) ?
        names[g_test_rand_int_range(0, 4)] : rare_name();
    uint64_t value = g_test_rand_int();

    pass(s);
    switch (g_test_rand_int_range(0, 9)) {
    case 0:
        put_instant(s, track, name);
        break;
    case 1 ... 4:
        if (s->depth[track]) {
            end_slice(s, track);
        }
        break;
    default:
        if (s->depth[track] < DEPTH) {
            begin_slice(s, track, name, value % 3 ? NULL : &value);
        }
        break;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct timeline_event *x = *(void *const *)a, *y = *(void *const *)b;

    /* As a reader: in the order of the file, if they have the same time */
    return x->time != y->time ? (x->time > y->time ? 1 : -1) :
           x > y ? 1 : -1;
}

/* What a reader makes of the events of one track; adds it to @found. */
static void read_track(const GArray *events, uint64_t track, GArray *found)
{
    g_autoptr(GPtrArray) order = g_ptr_array_new();
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(struct event));

    for (guint i = 0; i < events->len; i++) {
        struct timeline_event *e = &g_array_index(events,
                                                  struct timeline_event, i);

        if (e->track == track) {
            g_ptr_array_add(order, e);
        }
    }
    if (order->len) {
        qsort(order->pdata, order->len, sizeof(gpointer), by_time);
    }
    for (guint i = 0; i < order->len; i++) {
        const struct timeline_event *e = order->pdata[i];
        struct event c = {
            .track = track, .begin = e->time, .end = e->time, .name = e->name,
            .has_value = e->has_value, .value = e->value,
            .instant = e->type == PERFETTO_INSTANT,
            .depth = e->type == PERFETTO_INSTANT ? 0 : open->len,
        };

        if (e->type == PERFETTO_BEGIN) {
            g_array_append_val(open, c);
        } else if (e->type == PERFETTO_INSTANT) {
            g_array_append_val(found, c);
        } else {
            g_assert_cmpuint(open->len, >, 0);
            c = g_array_index(open, struct event, open->len - 1);
            g_array_set_size(open, open->len - 1);
            c.end = e->time;
            g_array_append_val(found, c);
        }
    }
    g_assert_cmpuint(open->len, ==, 0);
}

static GArray *read_all(struct scene *s)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct event));
    g_autoptr(GPtrArray) packets = NULL;
    g_autoptr(GArray) events = NULL;

    fflush(s->out);
    packets = timeline_packets(s->bytes, s->size);
    events = timeline_events(packets);
    for (unsigned i = 0; i < TRACKS; i++) {
        read_track(events, i, found);
    }
    return found;
}

static int compare(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

#define BY(field)                                                            \
    if (x->field != y->field) {                                              \
        return x->field < y->field ? -1 : 1;                                 \
    }
    BY(track)
    BY(begin)
    BY(end)
    BY(instant)
    BY(depth)
    BY(has_value)
    BY(value)
#undef BY
    return strcmp(x->name, y->name);
}

/* As it stands in a timeline */
static const char *quoted(const char *name)
{
    return strcmp(name, "x\ty") ? name : "x\\ty";
}

/* How many of the slices around one have not ended */
static unsigned unended(const struct scene *s, const struct event *e)
{
    unsigned n = 0;

    while (n < s->depth[e->track] && s->open[e->track][n].number < e->number) {
        n++;
    }
    return n;
}

/* Of those that there are, the ones that are to be found */
static GArray *wanted(const struct scene *s, const struct slices_sums *sums)
{
    GArray *want = g_array_new(FALSE, FALSE, sizeof(struct event));

    for (guint i = 0; i < s->events->len; i++) {
        struct event e = g_array_index(s->events, struct event, i);

        if (e.instant || e.end - e.begin >= sums->shortest) {
            e.name = quoted(e.name);
            e.depth -= e.instant ? 0 : unended(s, &e);
            g_array_append_val(want, e);
        }
    }
    return want;
}

static void check_same(GArray *found, GArray *want)
{
    g_array_sort(found, compare);
    g_array_sort(want, compare);
    g_assert_cmpuint(found->len, ==, want->len);
    for (guint i = 0; i < found->len; i++) {
        g_assert_cmpint(compare(&g_array_index(found, struct event, i),
                                &g_array_index(want, struct event, i)), ==, 0);
    }
}

static void check(struct scene *s, const struct slices_sums *sums)
{
    g_autoptr(GArray) found = read_all(s), want = wanted(s, sums);
    uint64_t slices = s->events->len - s->instants;

    g_assert_cmpuint(sums->slices, ==, slices);
    g_assert_cmpuint(sums->left_out, ==,
                     s->events->len - want->len);
    g_assert_cmpuint(sums->begin, ==, s->first);
    g_assert_cmpuint(sums->end, ==, s->last);
    g_assert_cmpuint(perfetto_refused(s->p), ==, 0);
    check_same(found, want);
}

/* All of them, in any order of tracks */
static void run(uint64_t limit, unsigned n)
{
    struct slices_sums sums;
    struct scene s;

    begin(&s, limit);
    s.now = g_test_rand_int_range(1, 1000);
    for (unsigned i = 0; i < n; i++) {
        act(&s);
    }
    for (unsigned track = 0; track < TRACKS; track++) {
        while (s.depth[track]) {
            end_slice(&s, track);
        }
    }
    sums = slices_write(s.slices, 0);
    g_assert_cmpuint(sums.left_out, ==, 0);
    g_assert_cmpuint(sums.instants, ==, 0);
    check(&s, &sums);
    end(&s);
}

static void test_unlimited(void)
{
    for (unsigned n = 0; n < 60; n++) {
        run(0, n * n / 4);
    }
}

/* With room for all, the same is found. */
static void test_roomy(void)
{
    for (unsigned n = 0; n < 60; n++) {
        run(1 << 24, n * n / 4);
    }
}

/* Those that have not ended are not there. */
static void leave_open(struct scene *s)
{
    for (unsigned track = 0; track < TRACKS; track++) {
        while (s->depth[track] && g_test_rand_bit()) {
            end_slice(s, track);
        }
    }
}

/* Is this one of the times by which slices are chosen? */
static bool is_step(uint64_t ns)
{
    while (ns >= 10000 && ns % 10 == 0) {
        ns /= 10;
    }
    return ns == 0 || ns == 1000 || ns == 1500 || ns == 2000 || ns == 3000 ||
           ns == 4000 || ns == 5000 || ns == 6000 || ns == 8000;
}

/* The longest ones, in fewer bytes; as many as there is room for, about. */
static void run_limited(uint64_t limit, uint64_t reserve, unsigned tracks)
{
    struct slices_sums sums;
    struct scene s;

    begin(&s, limit);
    s.now = 1000;
    for (unsigned i = 0; i < 3000; i++) {
        act(&s);
        /* Others write, too. */
        if (tracks && i % (3000 / tracks) == 0) {
            perfetto_track(s.p, 100 + i, 0, "another");
        }
    }
    leave_open(&s);
    sums = slices_write(s.slices, reserve);
    g_assert_cmpuint(perfetto_written(s.p) + reserve, <=, limit);
    g_assert_true(is_step(sums.shortest));
    g_assert_true(!sums.left_out == !sums.shortest);
    if (!sums.instants) {
        check(&s, &sums);
    }
    end(&s);
}

static void test_limited(void)
{
    for (unsigned i = 0; i < 60; i++) {
        uint64_t limit = g_test_rand_int_range(60000, 120000);

        run_limited(limit, g_test_rand_int_range(0, limit / 4),
                    g_test_rand_int_range(0, 50));
    }
}

/* However little room there is, no more is taken. */
static void test_tight(void)
{
    for (unsigned i = 0; i < 60; i++) {
        uint64_t limit = g_test_rand_int_range(1, 6000);

        run_limited(limit, g_test_rand_int_range(0, limit / 2 + 1), 0);
    }
}

/* Slices that are as long as the shortest ones that are to stay do stay. */
static void test_equal(void)
{
    struct slices_sums sums;
    struct scene s;

    begin(&s, 20000);
    s.now = 1;
    for (unsigned i = 1; i <= 1000; i++) {
        begin_slice(&s, 0, "f", NULL);
        s.now += i * 1000;
        end_slice(&s, 0);
    }
    sums = slices_write(s.slices, 0);
    g_assert_cmpuint(sums.left_out, ==, sums.shortest / 1000 - 1);
    check(&s, &sums);
    end(&s);
}

/* @n slices in a row, of lengths from 1 us to some seconds */
static struct slices_sums put_row(struct scene *s, unsigned n)
{
    s->now = 1;
    for (unsigned i = 0; i < n; i++) {
        begin_slice(s, 0, "f", NULL);
        s->now += (uint64_t)g_test_rand_int_range(1000, 2000) << i % 22;
        end_slice(s, 0);
    }
    return slices_write(s->slices, 0);
}

/* What there is room for is used: most of it, where lengths differ. */
static void test_used(void)
{
    for (unsigned n = 1000; n <= 4000; n += 500) {
        uint64_t limit = 30000;
        struct slices_sums sums;
        struct scene s;

        begin(&s, limit);
        sums = put_row(&s, n);
        check(&s, &sums);
        g_assert_cmpuint(sums.left_out, >, 0);
        g_assert_cmpuint(perfetto_written(s.p), >, limit / 2);
        end(&s);
    }
}

/* Marks take a quarter of the room; more are counted, and others stay. */
static void test_instants(void)
{
    struct slices_sums sums;
    g_autoptr(GArray) found = NULL;
    guint instants = 0, slices = 0;
    struct scene s;

    begin(&s, 20000);
    s.now = 1;
    begin_slice(&s, 0, "around", NULL);
    for (unsigned i = 0; i < 1000; i++) {
        s.now++;
        put_instant(&s, i % TRACKS, "mark");
    }
    s.now += 5000000;
    end_slice(&s, 0);
    sums = slices_write(s.slices, 0);
    found = read_all(&s);
    for (guint i = 0; i < found->len; i++) {
        const struct event *e = &g_array_index(found, struct event, i);

        /* Those that were first */
        g_assert_true(!e->instant || e->begin <= 2 + found->len);
        instants += e->instant;
        slices += !e->instant;
    }
    g_assert_cmpuint(instants, >, 120);
    g_assert_cmpuint(instants + sums.instants, ==, 1000);
    g_assert_cmpuint(perfetto_written(s.p), <=, 20000 / 4 + 200);
    g_assert_cmpuint(slices, ==, 1);
    g_assert_cmpuint(sums.left_out, ==, 0);
    end(&s);
}

/* Names of marks, as long as they may be, take no room of slices. */
static void test_names(void)
{
    struct slices_sums sums;
    struct scene s;

    begin(&s, 40000);
    s.now = 1;
    for (unsigned i = 0; i < 100; i++) {
        g_autofree char *name = g_strdup_printf("%0400u", i);

        begin_slice(&s, 0, "f", NULL);
        s.now += 5000;
        put_instant(&s, 0, timeline_text(name));
        end_slice(&s, 0);
    }
    sums = slices_write(s.slices, 10000);
    g_assert_cmpuint(sums.left_out, ==, 0);
    g_assert_cmpuint(sums.instants, >, 50);
    g_assert_cmpuint(perfetto_written(s.p), <=, 30000);
    end(&s);
}

/* A clock that goes back makes no slice that ends before it begins. */
static void test_back(void)
{
    struct slices_sums sums;
    struct scene s;

    begin(&s, 20000);
    s.now = 100;
    begin_slice(&s, 0, "a", NULL);
    slices_end(s.slices, 0, 50);
    sums = slices_write(s.slices, 0);
    {
        g_autoptr(GArray) found = read_all(&s);
        const struct event *e = &g_array_index(found, struct event, 0);

        g_assert_cmpuint(found->len, ==, 1);
        g_assert_cmpuint(e->begin, ==, 100);
        g_assert_cmpuint(e->end, ==, 100);
    }
    g_assert_cmpuint(sums.begin, ==, 50);
    g_assert_cmpuint(sums.end, ==, 100);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/slices/unlimited", test_unlimited);
    g_test_add_func("/slices/roomy", test_roomy);
    g_test_add_func("/slices/limited", test_limited);
    g_test_add_func("/slices/tight", test_tight);
    g_test_add_func("/slices/equal", test_equal);
    g_test_add_func("/slices/used", test_used);
    g_test_add_func("/slices/instants", test_instants);
    g_test_add_func("/slices/names", test_names);
    g_test_add_func("/slices/back", test_back);
    return g_test_run();
}
