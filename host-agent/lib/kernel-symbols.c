/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols of the kernel over time: see kernel-symbols.h
 *
 * Of several symbols at one address, those of the kernel itself come before
 * those of modules: kallsyms_lookup() of Linux asks in this order.
 */

#include <glib.h>
#include <string.h>

#include "lib/agent/symbol-list.h"
#include "lib/internal/kernel-symbols.h"
#include "util/hash.h"
#include "util/kallsyms-line.h"
#include "util/search.h"

/* A symbol without a next one is no longer than this. */
#define SYMBOL_SIZE_MAX (1u << 20)
/* About what a table takes without symbols, and with each part */
#define TABLE_SIZE      512
#define TABLE_PART_SIZE 80
/* A table has no more parts than Linux has modules; the last has the rest. */
#define PARTS_MAX       4096
/*
 * Where the kernel's part of all addresses begins, with page tables of any
 * depth; and the least that it can be configured to with 32 bits
 */
#define KERNEL_HALF     (UINT64_C(1) << 63)
#define KERNEL_PART_32  (UINT64_C(1) << 30)
#define PAGE_SIZE       4096

/**
 * struct symbols_part - symbols of the kernel itself, or of a module
 * @hash:    of the text
 * @new_text: the text, if it may be new; or NULL
 * @number:  of a kernel's own symbols, or UINT32_MAX
 * @era:     number of the last era that has it, while these are searched
 * @after:   the same of the last one that may end with it
 * @span:    the span that this era is in
 */
struct symbols_part {
    uint64_t hash;
    const char *new_text;
    struct btrail_symbol_list list;
    uint32_t number;
    uint32_t era;
    uint32_t after;
    uint32_t span;
};

/* Where the first and the last symbol begin; none if @first is after @last */
struct symbol_range {
    uint64_t first;
    uint64_t last;
};

/**
 * struct kernel_run - tables of one kernel number after each other, with the
 *                     same symbols of the kernel itself
 * @own, @modules: of all that these tables have
 * @coming: the table after them, which is of another kernel; or NULL
 */
struct kernel_run {
    struct symbol_range own;
    struct symbol_range modules;
    const struct symbol_table *coming;
};

/**
 * struct symbol_table - as it was read at one time
 * @held: the last moment at which it held; UINT64_MAX: up to the next one
 * @own:  of the kernel itself; NULL if it is not known
 * @parts: of modules
 * @ends: it has end lines
 * @run:  of its kernel
 */
struct symbol_table {
    uint32_t kernel;
    uint32_t number;
    uint64_t time;
    uint64_t held;
    struct symbols_part *own;
    GPtrArray *parts;
    struct kernel_run *run;
    bool ends;
};

/**
 * struct era
 * @before: the table, or else the last one
 * @after:  the next one, if it is not known which of both holds; or NULL
 * @sure:   @before holds; else only its own symbols do, or what @after has, too
 */
struct era {
    struct btrail_symbol_era e;
    const struct symbol_table *before;
    const struct symbol_table *after;
    bool sure;
};

/**
 * struct part_span - a part, and from when to when it was there
 * @other: another kernel ran before that, from @since on; what is not near its
 *         symbols can have been there since then; or NULL
 * @first: symbols before it
 */
struct part_span {
    const struct symbols_part *part;
    const struct symbol_table *table;
    const struct kernel_run *other;
    struct btrail_symbol_era e;
    uint64_t since;
    uint64_t first;
};

/* From a time on, as far as symbols say it, this kernel runs. */
struct kernel_turn {
    uint64_t time;
    uint32_t kernel;
};

struct btrail_kernel_symbols {
    GHashTable *parts;          /* of struct symbols_part */
    GPtrArray *tables;          /* of struct symbol_table */
    GPtrArray *runs;            /* of struct kernel_run */
    GHashTable *last;           /* kernel -> its last table */
    GArray *eras;               /* of struct era, by kernel and time */
    GArray *turns;              /* of struct kernel_turn, if all kernels have
                                   numbers */
    GArray *spans;              /* of struct part_span */
    uint32_t owns;
    uint64_t tick;
    uint64_t cut;
};

static guint hash_part(gconstpointer p)
{
    return ((const struct symbols_part *)p)->hash >> 32;
}

/* One of both is new. */
static gboolean equal_parts(gconstpointer p, gconstpointer q)
{
    const struct symbols_part *a = p, *b = q;
    const struct symbols_part *known = a->new_text ? b : a;
    const struct symbols_part *new = a->new_text ? a : b;

    return a == b || (a->hash == b->hash && new->new_text &&
                      btrail_symbol_list_is(&known->list, new->new_text,
                                            new->list.size));
}

static void free_part(gpointer p)
{
    struct symbols_part *part = p;

    btrail_symbol_list_clear(&part->list);
    g_free(part);
}

static void free_table(gpointer p)
{
    struct symbol_table *t = p;

    g_ptr_array_free(t->parts, TRUE);
    g_free(t);
}

struct btrail_kernel_symbols *btrail_kernel_symbols_new(void)
{
    struct btrail_kernel_symbols *ks = g_new0(struct btrail_kernel_symbols,
                                              1);

    ks->parts = g_hash_table_new_full(hash_part, equal_parts, free_part, NULL);
    ks->tables = g_ptr_array_new_with_free_func(free_table);
    ks->runs = g_ptr_array_new_with_free_func(g_free);
    ks->last = g_hash_table_new(NULL, NULL);
    ks->eras = g_array_new(FALSE, FALSE, sizeof(struct era));
    ks->turns = g_array_new(FALSE, FALSE, sizeof(struct kernel_turn));
    ks->spans = g_array_new(FALSE, FALSE, sizeof(struct part_span));
    return ks;
}

void btrail_kernel_symbols_free(struct btrail_kernel_symbols *ks)
{
    if (ks) {
        g_array_free(ks->spans, TRUE);
        g_array_free(ks->turns, TRUE);
        g_array_free(ks->eras, TRUE);
        g_hash_table_unref(ks->last);
        g_ptr_array_free(ks->runs, TRUE);
        g_ptr_array_free(ks->tables, TRUE);
        g_hash_table_unref(ks->parts);
        g_free(ks);
    }
}

/* Symbols below are not of code: those of per-CPU data, and constants. */
static uint64_t lowest_address(const char *text, size_t size)
{
    const char *p = text, *end = text + size;
    struct btrail_kallsyms_line line;

    while (btrail_kallsyms_next(&p, end, &line)) {
        if (line.address >= KERNEL_HALF) {
            return KERNEL_HALF;
        }
    }
    return KERNEL_PART_32;
}

/* The part of a text; adds the memory that a new one takes. */
static struct symbols_part *get_part(struct btrail_kernel_symbols *ks,
                                     const char *text, size_t size,
                                     uint64_t *memory)
{
    const struct symbols_part key = {
        .hash = btrail_hash_bytes(text, size), .new_text = text,
        .list.size = size,
    };
    struct symbols_part *part = g_hash_table_lookup(ks->parts, &key);

    if (!part) {
        part = g_new0(struct symbols_part, 1);
        part->hash = key.hash;
        part->number = UINT32_MAX;
        btrail_symbol_list_init(&part->list, text, size,
                                lowest_address(text, size));
        g_hash_table_add(ks->parts, part);
        *memory += sizeof(*part) + btrail_symbol_list_memory(&part->list);
    }
    return part;
}

/**
 * struct slices - a text, cut where the module changes
 * @own:    the lines of the kernel itself
 * @rest:   those of modules after too many others
 * @begin:  of the slice that is being read
 * @module: of its lines, or NULL
 */
struct slices {
    struct btrail_kernel_symbols *ks;
    struct symbol_table *table;
    GString *own;
    GString *rest;
    const char *begin;
    const char *module;
    size_t module_size;
    uint64_t memory;
};

static void add_part(struct slices *s, const char *data, size_t size)
{
    struct symbols_part *part = get_part(s->ks, data, size, &s->memory);

    g_ptr_array_add(s->table->parts, part);
    s->table->ends |= part->list.ends->len;
    s->memory += TABLE_PART_SIZE;
}

static void end_slice(struct slices *s, const char *end)
{
    size_t size = s->begin ? end - s->begin : 0;

    if (size && !s->module) {
        g_string_append_len(s->own, s->begin, size);
    } else if (size && s->table->parts->len >= PARTS_MAX) {
        g_string_append_len(s->rest, s->begin, size);
    } else if (size) {
        add_part(s, s->begin, size);
    }
}

static bool same_module(const struct slices *s,
                        const struct btrail_kallsyms_line *line)
{
    return s->module && line->module ?
           s->module_size == line->module_size &&
           !memcmp(s->module, line->module, s->module_size) :
           !s->module == !line->module;
}

static void cut_text(struct slices *s, const char *data, size_t size)
{
    struct btrail_kallsyms_line line;
    const char *p = data, *end = data + size;

    while (btrail_kallsyms_next(&p, end, &line)) {
        /* Lines of another form may be before this one. */
        const char *begin = memrchr(data, '\n', line.name - data);

        begin = begin ? begin + 1 : data;
        if (s->begin && same_module(s, &line)) {
            continue;
        }
        end_slice(s, begin);
        s->begin = begin;
        s->module = line.module;
        s->module_size = line.module_size;
    }
    end_slice(s, end);
    if (s->rest->len) {
        add_part(s, s->rest->str, s->rest->len);
    }
}

uint64_t btrail_kernel_symbols_add(struct btrail_kernel_symbols *ks,
                                   uint32_t kernel, uint64_t time,
                                   const char *data, size_t size)
{
    gpointer key = GUINT_TO_POINTER(kernel);
    const struct symbol_table *last = g_hash_table_lookup(ks->last, key);
    struct symbol_table *t = g_new0(struct symbol_table, 1);
    struct slices slices = {
        .ks = ks, .table = t, .own = g_string_new(NULL),
        .rest = g_string_new(NULL), .memory = TABLE_SIZE,
    };

    t->kernel = kernel;
    t->number = ks->tables->len;
    t->time = time;
    t->held = UINT64_MAX;
    t->parts = g_ptr_array_new();
    cut_text(&slices, data, size);
    if (slices.own->len) {
        struct symbols_part *own = get_part(ks, slices.own->str,
                                            slices.own->len, &slices.memory);

        if (own->number == UINT32_MAX) {
            own->number = ks->owns++;
        }
        t->own = own;
    } else {
        t->own = last ? last->own : NULL;
    }
    t->ends |= t->own && t->own->list.ends->len;
    g_string_free(slices.own, TRUE);
    g_string_free(slices.rest, TRUE);
    g_ptr_array_add(ks->tables, t);
    g_hash_table_insert(ks->last, key, t);
    return slices.memory;
}

void btrail_kernel_symbols_held(struct btrail_kernel_symbols *ks,
                                uint32_t kernel, uint64_t time)
{
    struct symbol_table *last = g_hash_table_lookup(ks->last,
                                                    GUINT_TO_POINTER(kernel));

    if (last) {
        last->held = last->held == UINT64_MAX ? time : MAX(last->held, time);
    }
}

void btrail_kernel_symbols_lost(struct btrail_kernel_symbols *ks,
                                uint32_t kernel, uint64_t time)
{
    struct symbol_table *last = g_hash_table_lookup(ks->last,
                                                    GUINT_TO_POINTER(kernel));

    if (last && last->held == UINT64_MAX) {
        last->held = MAX(time, 1) - 1;
    }
}

static gint by_kernel(gconstpointer p, gconstpointer q)
{
    const struct symbol_table *a = *(struct symbol_table *const *)p;
    const struct symbol_table *b = *(struct symbol_table *const *)q;

    return BTRAIL_COMPARE(a->kernel, b->kernel) ?:
           BTRAIL_COMPARE(a->time, b->time) ?:
           BTRAIL_COMPARE(a->number, b->number);
}

/* Adds an era, as far as it is before what is not known. */
static void add_era(struct btrail_kernel_symbols *ks,
                    const struct symbol_table *before,
                    const struct symbol_table *after, bool sure, uint64_t from,
                    uint64_t last)
{
    struct era era = {
        .e = { ks->eras->len + 1, before->kernel, UINT32_MAX, from, last },
        .before = before, .after = after, .sure = sure,
    };

    if (from >= ks->cut) {
        return;
    }
    if (ks->cut != UINT64_MAX) {
        era.e.last = MIN(last, ks->cut - 1);
    }
    if (before->own && (!after || after->own == before->own)) {
        era.e.own = before->own->number;
    }
    g_array_append_val(ks->eras, era);
}

#define NO_RANGE ((struct symbol_range) { UINT64_MAX, 0 })

static void add_range(struct symbol_range *range,
                      const struct symbols_part *part)
{
    const GArray *entries = part ? part->list.entries : NULL;

    if (entries && entries->len) {
        const struct btrail_symbol_entry *all = (const void *)entries->data;

        range->first = MIN(range->first, all[0].address);
        range->last = MAX(range->last, all[entries->len - 1].address);
    }
}

/* Is there one so near that it may reach up to an address, or the reverse? */
static bool is_near(const struct symbol_range *range, uint64_t address)
{
    return range->first <= range->last &&
           address >= range->first - MIN(range->first, SYMBOL_SIZE_MAX) &&
           address <= MIN(range->last, UINT64_MAX - SYMBOL_SIZE_MAX) +
                      SYMBOL_SIZE_MAX;
}

static bool is_near_run(const struct kernel_run *run, uint64_t address)
{
    return is_near(&run->own, address) || is_near(&run->modules, address);
}

/* Finds the runs of @n tables that have one number. */
static void find_runs(struct btrail_kernel_symbols *ks,
                      const GPtrArray *tables, guint first, guint n)
{
    struct kernel_run *run = NULL;

    for (guint i = first; i < first + n; i++) {
        struct symbol_table *t = tables->pdata[i];
        const struct symbol_table *last = run ? tables->pdata[i - 1] : NULL;

        if (!run || last->own != t->own) {
            struct kernel_run *next = g_new0(struct kernel_run, 1);

            if (run) {
                run->coming = t;
            }
            run = next;
            run->own = run->modules = NO_RANGE;
            g_ptr_array_add(ks->runs, run);
            add_range(&run->own, t->own);
        }
        t->run = run;
        for (guint k = 0; k < t->parts->len; k++) {
            add_range(&run->modules, t->parts->pdata[k]);
        }
    }
}

/* The eras of a kernel, which has these @n tables */
static void add_eras(struct btrail_kernel_symbols *ks,
                     const GPtrArray *tables, guint first, guint n)
{
    const struct symbol_table *t = tables->pdata[first];

    find_runs(ks, tables, first, n);
    if (t->time) {
        add_era(ks, t, NULL, false, 0, t->time - 1);
    }
    for (guint i = first; i < first + n; i++) {
        const struct symbol_table *next = i + 1 < first + n ?
                                          tables->pdata[i + 1] : NULL;
        uint64_t last = next ? next->time - 1 : UINT64_MAX;
        uint64_t end;               /* of what is sure */

        t = tables->pdata[i];
        if (next && next->time <= t->time) {
            continue;
        }
        end = last;
        if (t->held < last) {
            /* A record can be later than its time, and after a change. */
            end = next ? t->held - MIN(t->held, ks->tick) : t->held;
        }
        if (end >= t->time) {
            add_era(ks, t, NULL, true, t->time, end);
        }
        if (end < last) {
            add_era(ks, t, next, false, MAX(end + 1, t->time), last);
        }
    }
}

/* A part is there in an era. */
static void note_part(struct btrail_kernel_symbols *ks, struct era *era,
                      const struct symbol_table *table,
                      struct symbols_part *part)
{
    struct part_span span = { .part = part, .table = table, .e = era->e };

    if (part->era == era->e.number) {
        return;
    }
    if (part->era && part->era == era->e.number - 1 &&
        era[-1].e.kernel == era->e.kernel) {
        g_array_index(ks->spans, struct part_span, part->span).e.last =
            era->e.last;
    } else {
        part->span = ks->spans->len;
        g_array_append_val(ks->spans, span);
    }
    part->era = era->e.number;
}

static void add_spans(struct btrail_kernel_symbols *ks)
{
    const struct kernel_run *other = NULL;
    uint64_t symbols = 0, since = 0;

    for (guint i = 0; i < ks->eras->len; i++) {
        struct era *era = &g_array_index(ks->eras, struct era, i);
        const GPtrArray *parts = era->before->parts;
        const GPtrArray *after = era->after ? era->after->parts : NULL;

        if (era->e.own != UINT32_MAX) {
            guint spans = ks->spans->len;

            note_part(ks, era, era->before, era->before->own);
            if (spans < ks->spans->len && other &&
                other->coming->kernel == era->e.kernel &&
                other->coming->own == era->before->own) {
                struct part_span *span = &g_array_index(
                    ks->spans, struct part_span, spans);

                span->other = other;
                span->since = since;
            }
        }
        if (era->before->run->coming && era->before->run != other) {
            other = era->before->run;
            since = era->e.from;
        }
        for (guint k = 0; after && k < after->len; k++) {
            ((struct symbols_part *)after->pdata[k])->after = era->e.number;
        }
        for (guint k = 0; k < parts->len; k++) {
            struct symbols_part *part = parts->pdata[k];

            if (era->sure || part->after == era->e.number) {
                note_part(ks, era, era->before, part);
            }
        }
    }
    for (guint i = 0; i < ks->spans->len; i++) {
        struct part_span *span = &g_array_index(ks->spans, struct part_span,
                                                i);

        span->first = symbols;
        symbols += span->part->list.entries->len;
    }
}

static gint by_time(gconstpointer p, gconstpointer q)
{
    const struct symbol_table *a = *(const struct symbol_table *const *)p;
    const struct symbol_table *b = *(const struct symbol_table *const *)q;

    return BTRAIL_COMPARE(a->time, b->time) ?:
           BTRAIL_COMPARE(a->number, b->number);
}

/* A kernel can come back, as when the guest is restored. */
static void find_turns(struct btrail_kernel_symbols *ks)
{
    struct kernel_turn turn = { 0 };

    g_ptr_array_sort(ks->tables, by_time);
    for (guint i = 0; i < ks->tables->len; i++) {
        const struct symbol_table *t = ks->tables->pdata[i];

        if (!t->kernel) {
            g_array_set_size(ks->turns, 0);
            return;
        }
        if (t->kernel != turn.kernel) {
            turn = (struct kernel_turn) { t->time, t->kernel };
            g_array_append_val(ks->turns, turn);
        }
    }
}

void btrail_kernel_symbols_complete(struct btrail_kernel_symbols *ks,
                                    uint64_t tick, uint64_t cut)
{
    guint i, k;

    ks->tick = tick;
    ks->cut = cut;
    find_turns(ks);
    g_ptr_array_sort(ks->tables, by_kernel);
    for (i = 0; i < ks->tables->len; i = k) {
        const struct symbol_table *t = ks->tables->pdata[i];

        for (k = i + 1; k < ks->tables->len && t->kernel ==
             ((struct symbol_table *)ks->tables->pdata[k])->kernel; k++) {
            continue;
        }
        add_eras(ks, ks->tables, i, k - i);
    }
    add_spans(ks);
}

/*
 * Where events do not say which kernel runs, it is the one whose symbols were
 * found last, or else first.  Gets the time for which this is so.
 */
static uint32_t kernel_at(const struct btrail_kernel_symbols *ks, uint64_t time,
                          uint64_t *from, uint64_t *last)
{
    const struct kernel_turn *all = (void *)ks->turns->data;
    guint n = ks->turns->len;
    size_t i = BTRAIL_UP_TO(all, n, struct kernel_turn, time, time);

    *from = i > 1 ? all[i - 1].time : 0;
    i = MAX(i, 1);
    *last = i < n ? all[i].time - 1 : UINT64_MAX;
    return n ? all[i - 1].kernel : 0;
}

uint32_t btrail_kernel_symbols_kernel(const struct btrail_kernel_symbols *ks,
                                      uint64_t time)
{
    uint64_t from, last;

    return kernel_at(ks, time, &from, &last);
}

bool btrail_kernel_symbols_any(const struct btrail_kernel_symbols *ks)
{
    return ks->tables->len;
}

uint32_t btrail_kernel_symbols_owns(const struct btrail_kernel_symbols *ks)
{
    return ks->owns;
}

void btrail_kernel_symbols_era(const struct btrail_kernel_symbols *ks,
                               uint32_t kernel, uint64_t time,
                               struct btrail_symbol_era *era)
{
    const struct era *all = (const struct era *)ks->eras->data;
    guint low = 0, high = ks->eras->len;
    uint64_t from = 0, last = UINT64_MAX;
    uint32_t asked = kernel;

    if (!kernel) {
        kernel = kernel_at(ks, time, &from, &last);
    }
    while (low < high) {
        guint middle = low + (high - low) / 2;
        const struct btrail_symbol_era *e = &all[middle].e;

        if (e->kernel < kernel || (e->kernel == kernel && e->from <= time)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low && all[low - 1].e.kernel == kernel && time <= all[low - 1].e.last) {
        *era = all[low - 1].e;
    } else {
        /*
         * That holds up to the last moment, since one kernel's eras have no
         * gaps.
         */
        *era = (struct btrail_symbol_era) {
            0, kernel, UINT32_MAX, low && all[low - 1].e.kernel == kernel ?
            all[low - 1].e.last + 1 : 0, UINT64_MAX,
        };
    }
    era->kernel = asked;
    era->from = MAX(era->from, from);
    era->last = MIN(era->last, last);
}

/*
 * Does a symbol reach up to @next?  Without end lines nothing says what is
 * between the code of a module and what follows: other areas of this module,
 * or of others, trampolines, or nothing.
 */
static bool reaches(const struct btrail_symbol_entry *e,
                    const struct btrail_symbol_entry *next)
{
    if (!next || !e->module || !next->module) {
        return next && !e->module && !next->module;
    }
    return btrail_symbol_is_code(next->type) &&
           !strcmp(e->module, next->module);
}

/*
 * Where a symbol of a table ends.  It does so at the next one or an end line;
 * without end lines it may end with its page, because code of others is in
 * other pages.
 */
static uint64_t find_end(const struct symbol_table *t, bool own_only,
                         const struct btrail_symbol_entry *e,
                         const struct btrail_symbol_entry *next)
{
    uint64_t end = e->address > UINT64_MAX - SYMBOL_SIZE_MAX ? UINT64_MAX :
                   e->address + SYMBOL_SIZE_MAX;

    end = next ? MIN(end, next->address) : end;
    if (!t->ends && !reaches(e, next)) {
        end = MIN(end - 1, e->address | (PAGE_SIZE - 1)) + 1;
    }
    if (t->own) {
        end = btrail_symbol_list_end(&t->own->list, e->address, end);
    }
    for (guint i = 0; !own_only && t->ends && i < t->parts->len; i++) {
        const struct symbols_part *part = t->parts->pdata[i];

        end = btrail_symbol_list_end(&part->list, e->address, end);
    }
    return end;
}

static void search_table(const struct symbol_table *t, bool own_only,
                         uint64_t address, struct btrail_symbol_found *found)
{
    if (t->own) {
        btrail_symbol_list_search(&t->own->list, address, found);
    }
    for (guint i = 0; !own_only && i < t->parts->len; i++) {
        const struct symbols_part *part = t->parts->pdata[i];

        btrail_symbol_list_search(&part->list, address, found);
    }
}

static void set_symbol(struct btrail_symbol *symbol,
                       const struct btrail_symbol_entry *e, uint64_t end)
{
    *symbol = (struct btrail_symbol) {
        .address = e->address, .end = end, .name = e->name,
        .module = e->module, .type = e->type,
    };
}

static bool find_in_table(const struct symbol_table *t, bool own_only,
                          uint64_t address, struct btrail_symbol *symbol)
{
    struct btrail_symbol_found found = { NULL };

    search_table(t, own_only, address, &found);
    if (!found.entry) {
        return false;
    }
    set_symbol(symbol, found.entry,
               find_end(t, own_only, found.entry, found.next));
    return address < symbol->end;
}

/*
 * Is it the same in both tables?  The kernel's own symbols are; only what is
 * around them may differ, and @a gets the end that is right for both.
 */
static bool is_common(const struct era *era, struct btrail_symbol *a,
                      const struct btrail_symbol *b)
{
    bool own = !a->module && era->e.own != UINT32_MAX;

    if (a->address != b->address || g_strcmp0(a->module, b->module) ||
        strcmp(a->name, b->name) || (!own && a->end != b->end)) {
        return false;
    }
    a->end = MIN(a->end, b->end);
    return true;
}

/*
 * Before the first table of the next kernel, that may run already.  A symbol
 * that one of them has, near which the other one has nothing, is of the former.
 */
static bool find_by_place(const struct era *era, uint64_t address,
                          struct btrail_symbol *symbol)
{
    const struct symbol_table *before = era->before;
    const struct symbol_table *coming = before->run->coming;

    if (!coming || !coming->own) {
        return false;
    }
    if (!is_near_run(before->run, address)) {
        return is_near(&coming->run->own, address) &&
               find_in_table(coming, true, address, symbol);
    }
    return era->after && before->own != era->after->own &&
           !is_near(&coming->run->own, address) &&
           find_in_table(before, true, address, symbol);
}

int btrail_kernel_symbols_find(const struct btrail_kernel_symbols *ks,
                               uint32_t number, uint64_t address,
                               struct btrail_symbol *symbol)
{
    const struct era *era = number - 1 < ks->eras->len ?
        &g_array_index(ks->eras, struct era, number - 1) : NULL;
    struct btrail_symbol after;
    bool own_only;

    if (!era) {
        return -BTRAIL_ERR_END;
    }
    own_only = !era->sure && !era->after;
    if (find_in_table(era->before, own_only, address, symbol) &&
        (!era->after ||
         (find_in_table(era->after, false, address, &after) &&
          is_common(era, symbol, &after)))) {
        return 0;
    }
    return find_by_place(era, address, symbol) ? 0 : -BTRAIL_ERR_END;
}

/* The first entry at a higher address than @e; many can have the same. */
static const struct btrail_symbol_entry *
entry_after(const struct btrail_symbol_list *list,
             const struct btrail_symbol_entry *e)
{
    const struct btrail_symbol_entry *all = (const void *)list->entries->data;
    size_t n = (size_t)(e - all) + 1;

    if (n < list->entries->len && all[n].address == e->address) {
        n = BTRAIL_UP_TO(all, list->entries->len, struct btrail_symbol_entry,
                         address, e->address);
    }
    return n < list->entries->len ? &all[n] : NULL;
}

int btrail_kernel_symbols_get(const struct btrail_kernel_symbols *ks, size_t i,
                              struct btrail_symbol *symbol,
                              struct btrail_symbol_era *era)
{
    const struct part_span *all = (void *)ks->spans->data, *span;
    size_t n = BTRAIL_UP_TO(all, ks->spans->len, struct part_span, first, i);
    const struct btrail_symbol_entry *e;
    struct btrail_symbol_found found = { NULL };
    bool own;

    span = n ? &all[n - 1] : NULL;
    if (!span || i - span->first >= span->part->list.entries->len) {
        return -BTRAIL_ERR_END;
    }
    e = &g_array_index(span->part->list.entries, struct btrail_symbol_entry,
                       i - span->first);
    /* What a kernel has itself does not depend on the table. */
    own = span->part->number != UINT32_MAX;
    found.next = entry_after(&span->part->list, e);
    if (!own) {
        search_table(span->table, false, e->address, &found);
    }
    set_symbol(symbol, e, find_end(span->table, own, e, found.next));
    if (era) {
        *era = span->e;
        era->number = 0;
        if (span->other && !is_near_run(span->other, e->address)) {
            era->from = span->since;
        }
    }
    return 0;
}
