/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a function ran: see visits.h
 */

#include <string.h>

#include "walk/visits.h"
#include "util/hash.h"

#define fail(error, ...) \
    btrail_agent_fail(error, BTRAIL_AGENT_ERROR_COMMAND, __VA_ARGS__)

/**
 * struct lane - a vCPU
 * @b, @next: records that were read, and the first that was not searched
 * @found:    @visit is the next one
 */
struct lane {
    struct btrail_cursor *cursor;
    unsigned vcpu;
    struct btrail_batch b;
    size_t next;
    bool found;
    bool ended;
    struct moment visit;
};

struct visits {
    struct symbolizer *symbols;
    char *process;
    char *function;
    GHashTable *addresses;
    struct lane lanes[BTRAIL_MAX_VCPUS];
    unsigned n;
};

static bool library_failed(GError **error, int ret)
{
    return fail(error, "the trace: %s", btrail_strerror(ret));
}

GHashTable *visits_kernel_function(const struct btrail_trace *trace,
                                   const char *name, GError **error)
{
    GHashTable *addresses;
    struct btrail_names *names;
    struct btrail_symbol symbol;
    int ret = btrail_names_open(&names, trace);

    if (ret) {
        library_failed(error, ret);
        return NULL;
    }
    addresses = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                      NULL);
    for (size_t i = 0; !btrail_names_symbol(names, i, &symbol); i++) {
        if (!strcmp(symbol.name, name)) {
            g_hash_table_add(addresses,
                             g_memdup2(&symbol.address,
                                       sizeof(symbol.address)));
        }
    }
    btrail_names_close(names);
    return addresses;
}

static bool open_lanes(struct visits *v, const struct btrail_trace *trace,
                       GError **error)
{
    struct btrail_stream_info info;
    int ret;

    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS &&
         !btrail_trace_stream(trace, i, &info); i++) {
        struct lane *lane = &v->lanes[v->n];

        lane->vcpu = info.vcpu;
        ret = btrail_cursor_open(&lane->cursor, trace, info.vcpu, 0);
        if (ret) {
            return library_failed(error, ret);
        }
        v->n++;
    }
    return true;
}

struct visits *visits_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, const char *process,
                          const char *function, GError **error)
{
    struct visits *v = g_new0(struct visits, 1);

    v->symbols = symbols;
    v->process = g_strdup(process);
    v->function = g_strdup(function);
    v->addresses = visits_kernel_function(trace, function, error);
    if (!v->addresses || !open_lanes(v, trace, error)) {
        visits_free(v);
        return NULL;
    }
    if (!process && !g_hash_table_size(v->addresses)) {
        btrail_agent_fail(error, BTRAIL_AGENT_ERROR_NAMES,
                          "the guest's kernel has no function %s, or the trace "
                          "has no names", function);
        visits_free(v);
        return NULL;
    }
    return v;
}

void visits_free(struct visits *v)
{
    if (v) {
        for (unsigned i = 0; i < v->n; i++) {
            btrail_cursor_close(v->lanes[i].cursor);
        }
        if (v->addresses) {
            g_hash_table_unref(v->addresses);
        }
        g_free(v->process);
        g_free(v->function);
        g_free(v);
    }
}

/* Does record @i of the batch end in the function? */
static bool matches(struct visits *v, const struct lane *lane, size_t i)
{
    const struct btrail_batch *b = &lane->b;
    uint64_t to = b->records[i].to;
    /* Kernels are in the upper half. */
    bool kernel = to >> 63;
    struct btrail_batch one = *b, part = { .count = 0 };
    struct task task;
    struct place place;

    if (kernel && !g_hash_table_contains(v->addresses, &to)) {
        return false;
    }
    if (!v->process) {
        return kernel;
    }
    if (b->task.known && strcmp(b->task.name, v->process)) {
        return false;
    }
    if (kernel && b->task.known) {
        return true;
    }
    one.index += i;
    one.records += i;
    one.count = 1;
    if (!v->symbols ||
        !symbolizer_part(v->symbols, lane->vcpu, &one, &part, &task) ||
        strcmp(task.process->comm, v->process)) {
        return false;
    }
    if (kernel) {
        return true;
    }
    symbolizer_place(v->symbols, task.process, to, &place);
    return place.function->known && !place.offset &&
           !strcmp(place.function->name, v->function);
}

/* Searches on to the next visit of this vCPU. */
static bool advance(struct visits *v, struct lane *lane, GError **error)
{
    int ret;

    while (!lane->found && !lane->ended) {
        for (; !lane->found && lane->next < lane->b.count; lane->next++) {
            if (matches(v, lane, lane->next)) {
                lane->found = true;
                lane->visit = moment_behind(lane->vcpu, &lane->b, lane->next);
            }
        }
        if (lane->found) {
            return true;
        }
        lane->next = 0;
        ret = btrail_cursor_next(lane->cursor, &lane->b);
        if (ret) {
            lane->b.count = 0;
            lane->ended = true;
            return ret == -BTRAIL_ERR_END || library_failed(error, ret);
        }
        if (lane->b.event) {
            lane->b.count = 0;
        }
    }
    return true;
}

bool visits_next(struct visits *v, struct moment *visit, GError **error)
{
    struct lane *first = NULL;

    for (unsigned i = 0; i < v->n; i++) {
        struct lane *lane = &v->lanes[i];

        if (!advance(v, lane, error)) {
            return false;
        }
        if (lane->found &&
            (!first || moment_compare(&lane->visit, &first->visit) < 0)) {
            first = lane;
        }
    }
    if (!first) {
        return false;
    }
    *visit = first->visit;
    first->found = false;
    return true;
}
