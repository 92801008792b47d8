/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Edges of two traces: see diff-edges.h
 */

#include <string.h>

#include "analyze/diff-edges.h"
#include "util/hash.h"

/* Edges are allocated this many at a time, and do not move. */
#define GROUP_BITS  12
#define GROUP       (1u << GROUP_BITS)
#define GROUPS      4096
#define MAX_EDGES   (GROUP * GROUPS)

struct diff_edges {
    GMutex lock;                /* of all but what @groups has */
    struct diff_edge *groups[GROUPS];
    uint32_t n;
    GHashTable *numbers;        /* the set of struct diff_edge */
    GHashTable *functions;      /* the set of struct diff_function */
    GStringChunk *strings;
};

static guint hash_function(gconstpointer p)
{
    const struct diff_function *f = p;

    return btrail_hash3(btrail_str_hash(f->name), btrail_str_hash(f->module),
                        f->known) >> 32;
}

static gboolean equal_functions(gconstpointer p, gconstpointer q)
{
    const struct diff_function *a = p, *b = q;

    return a->known == b->known && !strcmp(a->name, b->name) &&
           !strcmp(a->module, b->module);
}

static guint hash_edge(gconstpointer p)
{
    const struct diff_edge *e = p;

    return btrail_hash3(btrail_hash2((uintptr_t)e->from_fn, e->from),
                        btrail_hash2((uintptr_t)e->to_fn, e->to),
                        e->kind + e->pseudo) >> 32;
}

static gboolean equal_edges(gconstpointer p, gconstpointer q)
{
    const struct diff_edge *a = p, *b = q;

    return a->from_fn == b->from_fn && a->to_fn == b->to_fn &&
           a->from == b->from && a->to == b->to && a->kind == b->kind &&
           a->pseudo == b->pseudo && a->back == b->back &&
           a->async == b->async;
}

static struct diff_function *get_function(struct diff_edges *d,
                                          const struct function *f)
{
    const struct diff_function key = {
        .name = f->name, .module = f->module->name, .known = f->known,
    };
    struct diff_function *mine = g_hash_table_lookup(d->functions, &key);

    if (!mine) {
        mine = g_new0(struct diff_function, 1);
        mine->name = g_string_chunk_insert(d->strings, f->name);
        mine->module = g_string_chunk_insert_const(d->strings,
                                                   f->module->name);
        mine->syscall = f->syscall ?
                        g_string_chunk_insert_const(d->strings, f->syscall) :
                        NULL;
        mine->known = f->known;
        g_hash_table_add(d->functions, mine);
    }
    return mine;
}

static struct diff_edge *slot(const struct diff_edges *d, uint32_t i)
{
    return &d->groups[i >> GROUP_BITS][i & (GROUP - 1)];
}

/* The number of the edge that a member of the set is */
static uint32_t number_of(const struct diff_edges *d,
                          const struct diff_edge *e)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(d->numbers, e));
}

static bool changes_stack(const struct diff_edge *e)
{
    switch (e->kind) {
    case STACK_EDGE_JUMP:
    case STACK_EDGE_JUMP_FAR:
        return false;
    default:
        return !e->async;
    }
}

static uint32_t add_edge(struct diff_edges *d, const struct diff_edge *edge)
{
    uint32_t i = d->n, number = 2 * i;

    if (i == MAX_EDGES) {
        return DIFF_EDGE_OTHERS;
    }
    if (!(i & (GROUP - 1))) {
        d->groups[i >> GROUP_BITS] = g_new(struct diff_edge, GROUP);
    }
    number |= changes_stack(edge) ? DIFF_EDGE_STACK : 0;
    *slot(d, i) = *edge;
    g_hash_table_insert(d->numbers, slot(d, i), GUINT_TO_POINTER(number));
    d->n++;
    return number;
}

struct diff_edges *diff_edges_new(void)
{
    struct diff_edges *d = g_new0(struct diff_edges, 1);
    const struct module module = { .name = NAME_UNKNOWN };
    const struct function none = {
        .name = NAME_UNKNOWN, .module = (struct module *)&module,
    };
    struct diff_edge edge = { .kind = STACK_EDGE_JUMP };

    g_mutex_init(&d->lock);
    d->numbers = g_hash_table_new(hash_edge, equal_edges);
    d->functions = g_hash_table_new_full(hash_function, equal_functions,
                                         g_free, NULL);
    d->strings = g_string_chunk_new(1u << 14);
    edge.from_fn = edge.to_fn = get_function(d, &none);
    for (unsigned i = DIFF_EDGE_GAP; i <= DIFF_EDGE_OTHERS; i += 2) {
        /* No edge of a trace has such a `back`. */
        edge.back = UINT64_MAX - i;
        add_edge(d, &edge);
    }
    return d;
}

void diff_edges_free(struct diff_edges *d)
{
    if (d) {
        g_hash_table_unref(d->numbers);
        g_hash_table_unref(d->functions);
        g_string_chunk_free(d->strings);
        for (unsigned i = 0; i < GROUPS; i++) {
            g_free(d->groups[i]);
        }
        g_mutex_clear(&d->lock);
        g_free(d);
    }
}

uint32_t diff_edges_number(struct diff_edges *d, const struct stack_edge *edge,
                           const struct place *from, const struct place *to,
                           bool async)
{
    struct diff_edge key = {
        .from = from->offset, .to = to->offset, .kind = edge->kind,
        .back = edge->back ? from->offset + (edge->back - edge->from) : 0,
        .pseudo = btrail_pseudo_name(edge->to) ? edge->to : 0,
        .start = edge->start, .user = edge->from < ADDRESS_SHARED,
        .async = async,
    };
    uint32_t number;

    g_mutex_lock(&d->lock);
    key.from_fn = get_function(d, from->function);
    key.to_fn = get_function(d, to->function);
    if (key.kind == STACK_EDGE_EXIT) {
        /*
         * The kernel has several ways out; which one it takes depends on
         * chance.
         */
        key.from_fn = key.to_fn;
        key.from = key.back = 0;
    }
    if (key.pseudo) {
        key.to_fn = key.from_fn;
        key.to = 0;
    }
    number = number_of(d, &key);
    if (!number) {
        number = add_edge(d, &key);
    }
    g_mutex_unlock(&d->lock);
    return number;
}

struct diff_edge *diff_edges_get(const struct diff_edges *d, uint32_t number)
{
    return slot(d, number / 2);
}

bool diff_edge_calls(const struct diff_edge *e)
{
    return e->start && e->kind != STACK_EDGE_EXIT &&
           (e->kind == STACK_EDGE_CALL || e->from_fn != e->to_fn);
}

GPtrArray *diff_edges_functions(struct diff_edges *d,
                                GArray *const counts[DIFF_SIDES])
{
    GPtrArray *functions = g_ptr_array_new();
    GHashTableIter iter;
    gpointer p;

    g_hash_table_iter_init(&iter, d->functions);
    while (g_hash_table_iter_next(&iter, &p, NULL)) {
        memset(((struct diff_function *)p)->calls, 0,
               DIFF_SIDES * sizeof(uint64_t));
        g_ptr_array_add(functions, p);
    }
    for (unsigned side = 0; side < DIFF_SIDES; side++) {
        for (uint32_t i = 0; i < MIN(d->n, counts[side]->len); i++) {
            const struct diff_edge *e = slot(d, i);

            if (diff_edge_calls(e)) {
                e->to_fn->calls[side] += g_array_index(counts[side], uint64_t,
                                                       i);
            }
        }
    }
    return functions;
}
