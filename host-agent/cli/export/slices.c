/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slices of a timeline: see slices.h
 */

#include <stdlib.h>
#include <string.h>

#include "cli/export/slices.h"
#include "util/hash.h"
#include "util/search.h"

/* Times by which slices are chosen, in ns: these, ten times as much, and so on */
static const uint16_t steps[] = {
    1000, 1500, 2000, 3000, 4000, 5000, 6000, 8000,
};

/* Longer than a trace: 31 years */
#define LONGEST (UINT64_C(1000000000) * 1000000000)

/* When slices are left out, so are some more, for others to have room */
#define SOME(room)  ((room) / 4 * 3)

/* A name, of so many slices that have ended, and its bytes in the output;
 * @instant: of an instant, too */
struct slice_name {
    uint64_t users;
    unsigned size;
    bool instant;
    char text[];
};

/**
 * struct slice - one that has ended, or if @instant is set something else
 * @number: of the order in which they have begun
 * @level:  of the slices around it, how many there are
 * @cost:   bytes, at most
 */
struct slice {
    uint64_t track;
    uint64_t number;
    uint64_t begin;
    uint64_t end;
    uint64_t value;
    struct slice_name *name;
    uint32_t level;
    uint16_t cost;
    bool has_value;
    bool instant;
};

/**
 * struct timeline_slices
 * @open:   track -> those that have not ended, a GArray of struct slice
 * @names:  text -> struct slice_name
 * @slices: that have ended
 * @cost:   bytes of these and of their names, at most; @instants: of instants
 *          and theirs alone
 */
struct timeline_slices {
    struct perfetto *out;
    uint64_t limit;
    GHashTable *open;
    GHashTable *names;
    GArray *slices;
    uint64_t cost;
    uint64_t instants;
    uint64_t numbers;
    struct slices_sums sums;
};

struct timeline_slices *slices_new(struct perfetto *out, uint64_t limit)
{
    struct timeline_slices *s = g_new0(struct timeline_slices, 1);

    s->out = out;
    s->limit = limit;
    s->open = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                    (GDestroyNotify)g_array_unref);
    s->names = g_hash_table_new_full(btrail_str_hash, g_str_equal, NULL,
                                     g_free);
    s->slices = g_array_new(FALSE, FALSE, sizeof(struct slice));
    return s;
}

void slices_free(struct timeline_slices *s)
{
    g_hash_table_unref(s->open);
    g_hash_table_unref(s->names);
    g_array_unref(s->slices);
    g_free(s);
}

static void note_time(struct timeline_slices *s, uint64_t time)
{
    if (!s->sums.begin || time < s->sums.begin) {
        s->sums.begin = time;
    }
    s->sums.end = MAX(s->sums.end, time);
}

static struct slice_name *get_name(struct timeline_slices *s, const char *text)
{
    struct slice_name *name = g_hash_table_lookup(s->names, text);
    size_t n = strlen(text);

    if (!name) {
        name = g_malloc0(sizeof(*name) + n + 1);
        memcpy(name->text, text, n);
        name->size = perfetto_name_size(text);
        g_hash_table_insert(s->names, name->text, name);
    }
    return name;
}

static void charge(struct timeline_slices *s, const struct slice *c)
{
    s->cost += c->cost + (c->name->users++ ? 0 : c->name->size);
}

static void discharge(struct timeline_slices *s, const struct slice *c)
{
    s->cost -= c->cost + (--c->name->users ? 0 : c->name->size);
}

static struct perfetto_event event_of(const struct slice *c,
                                      enum perfetto_type type)
{
    return (struct perfetto_event) {
        .type = type, .track = c->track,
        .time = type == PERFETTO_END ? c->end : c->begin,
        .name = type == PERFETTO_END ? NULL : c->name->text, .often = true,
        .value = c->has_value && type != PERFETTO_END ? &c->value : NULL,
    };
}

static void put(struct timeline_slices *s, const struct slice *c,
                enum perfetto_type type)
{
    const struct perfetto_event e = event_of(c, type);

    perfetto_event(s->out, &e);
}

static unsigned size_of(const struct slice *c, enum perfetto_type type)
{
    const struct perfetto_event e = event_of(c, type);

    return perfetto_event_size(&e);
}

/* Bytes that slices may have, if @reserve bytes are needed for others */
static uint64_t room(const struct timeline_slices *s, uint64_t reserve)
{
    uint64_t taken = perfetto_written(s->out) + reserve;

    return s->limit > taken ? s->limit - taken : 0;
}

/* The next one of the times */
static uint64_t next_time(uint64_t time)
{
    unsigned i = 0;
    uint64_t tens = 1;

    while (steps[i] * tens <= time) {
        i = (i + 1) % G_N_ELEMENTS(steps);
        tens *= i ? 1 : 10;
    }
    return steps[i] * tens;
}

/* Leaves out slices that are too short, until the rest takes few bytes. */
static void leave_out(struct timeline_slices *s, uint64_t most)
{
    while (s->cost > most && s->sums.shortest < LONGEST) {
        guint n = 0;

        s->sums.shortest = next_time(s->sums.shortest);
        for (guint i = 0; i < s->slices->len; i++) {
            struct slice *c = &g_array_index(s->slices, struct slice, i);

            if (c->instant || c->end - c->begin >= s->sums.shortest) {
                g_array_index(s->slices, struct slice, n++) = *c;
            } else {
                discharge(s, c);
                s->sums.left_out++;
            }
        }
        g_array_set_size(s->slices, n);
    }
}

static GArray *open_of(struct timeline_slices *s, uint64_t track)
{
    GArray *open = g_hash_table_lookup(s->open, &track);

    if (!open) {
        open = g_array_new(FALSE, FALSE, sizeof(struct slice));
        g_hash_table_insert(s->open, g_memdup2(&track, sizeof(track)), open);
    }
    return open;
}

void slices_begin(struct timeline_slices *s, uint64_t track, uint64_t time,
                  const char *name, const uint64_t *value)
{
    GArray *open = s->limit ? open_of(s, track) : NULL;
    struct slice c = {
        .track = track, .number = s->numbers++, .begin = time,
        .name = get_name(s, name), .level = open ? open->len : 0,
        .has_value = value, .value = value ? *value : 0,
    };

    note_time(s, time);
    if (open) {
        g_array_append_val(open, c);
    } else {
        put(s, &c, PERFETTO_BEGIN);
    }
}

static void add(struct timeline_slices *s, const struct slice *c)
{
    g_array_append_val(s->slices, *c);
    charge(s, c);
    if (s->cost > room(s, 0)) {
        leave_out(s, SOME(room(s, 0)));
    }
}

void slices_end(struct timeline_slices *s, uint64_t track, uint64_t time)
{
    GArray *open = s->limit ? open_of(s, track) : NULL;
    struct slice c = { .track = track, .end = time };

    note_time(s, time);
    s->sums.slices++;
    if (!open) {
        put(s, &c, PERFETTO_END);
        return;
    }
    if (!open->len) {
        return;
    }
    c = g_array_index(open, struct slice, open->len - 1);
    g_array_set_size(open, open->len - 1);
    c.end = MAX(time, c.begin);
    if (c.end - c.begin < s->sums.shortest) {
        s->sums.left_out++;
        return;
    }
    c.cost = size_of(&c, PERFETTO_BEGIN) + size_of(&c, PERFETTO_END);
    add(s, &c);
}

void slices_instant(struct timeline_slices *s, uint64_t track, uint64_t time,
                    const char *name, const uint64_t *value)
{
    struct slice c = {
        .track = track, .number = s->numbers++, .begin = time, .end = time,
        .name = get_name(s, name), .has_value = value,
        .value = value ? *value : 0,
        .instant = true, .level = UINT32_MAX,
    };
    uint64_t cost;

    note_time(s, time);
    if (!s->limit) {
        put(s, &c, PERFETTO_INSTANT);
        return;
    }
    c.cost = size_of(&c, PERFETTO_INSTANT);
    cost = c.cost + (c.name->instant ? 0 : c.name->size);
    if (s->instants + cost > s->limit / 4) {
        s->sums.instants++;
        return;
    }
    s->instants += cost;
    c.name->instant = true;
    add(s, &c);
}

static int in_order(gconstpointer a, gconstpointer b)
{
    const struct slice *x = a, *y = b;

    return BTRAIL_COMPARE(x->track, y->track) ?:
           BTRAIL_COMPARE(x->number, y->number);
}

/* Ends slices that are not around one of a level. */
static void put_ends(struct timeline_slices *s, GPtrArray *around, uint32_t level)
{
    while (around->len) {
        const struct slice *c = around->pdata[around->len - 1];

        if (c->level < level) {
            break;
        }
        put(s, c, PERFETTO_END);
        g_ptr_array_set_size(around, around->len - 1);
    }
}

struct slices_sums slices_write(struct timeline_slices *s, uint64_t reserve)
{
    g_autoptr(GPtrArray) around = g_ptr_array_new();
    uint64_t track = 0;

    if (!s->limit) {
        return s->sums;
    }
    leave_out(s, room(s, reserve));
    g_array_sort(s->slices, in_order);
    for (guint i = 0; i < s->slices->len; i++) {
        struct slice *c = &g_array_index(s->slices, struct slice, i);

        put_ends(s, around, c->track == track ? c->level : 0);
        track = c->track;
        if (c->instant) {
            put(s, c, PERFETTO_INSTANT);
        } else {
            put(s, c, PERFETTO_BEGIN);
            g_ptr_array_add(around, c);
        }
    }
    put_ends(s, around, 0);
    return s->sums;
}
