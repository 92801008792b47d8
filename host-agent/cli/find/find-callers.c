/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail find --callers-of: who has called a function, and how often
 */

#include <inttypes.h>
#include <string.h>

#include "cli/find/find.h"
#include "util/hash.h"
#include "util/json.h"
#include "util/search.h"

/* Addresses that are counted, of each thread; more share one line. */
#define MOST    (1u << 18)

/**
 * struct origin - where calls come from
 * @key:   the address, and what its name depends on: of user mode the process,
 *         as page tables have several one after the other; of the kernel the
 *         era
 * @first: one of them
 */
struct origin {
    uint64_t key[2];
    uint64_t calls;
    struct visit first;
};

/* A function that calls; @process is NULL for the kernel. */
struct caller {
    const struct function *function;
    const char *process;
    uint64_t calls;
};

struct callers {
    struct find_options *o;
    struct finder *f;
    GHashTable **origins;       /* of struct origin, of each thread */
};

/* The task that has made a call */
static struct task task_of(const struct callers *c, const struct visit *v)
{
    const struct btrail_batch b = visit_batch(v);
    struct btrail_batch part = { .count = 0 };
    struct task task;

    symbolizer_part(c->o->in.names, v->at.vcpu, &b, &part, &task);
    return task;
}

static void count(void *opaque, unsigned worker, const struct visit *visit)
{
    struct callers *c = opaque;
    uint64_t from = visit->record.from;
    struct origin key = { .first = *visit }, *o;
    struct task task;

    finder_lock(c->f);
    task = task_of(c, visit);
    finder_unlock(c->f);
    key.key[0] = from;
    key.key[1] = from < ADDRESS_SHARED ? (uintptr_t)task.process : task.era;
    o = g_hash_table_lookup(c->origins[worker], &key);
    if (!o && g_hash_table_size(c->origins[worker]) >= MOST) {
        key.key[0] = key.key[1] = UINT64_MAX;
        key.first.record.from = UINT64_MAX;
        o = g_hash_table_lookup(c->origins[worker], &key);
    }
    if (!o) {
        o = g_memdup2(&key, sizeof(key));
        g_hash_table_add(c->origins[worker], o);
    }
    o->calls++;
}

static guint hash_caller(gconstpointer p)
{
    const struct caller *c = p;

    return btrail_hash2((uintptr_t)c->function,
                        c->process ? btrail_str_hash(c->process) : 0) >> 32;
}

static gboolean equal_callers(gconstpointer a, gconstpointer b)
{
    const struct caller *x = a, *y = b;

    return x->function == y->function && !g_strcmp0(x->process, y->process);
}

static void add_origin(const struct callers *c, GHashTable *callers,
                       const struct origin *o)
{
    const struct visit *v = &o->first;
    const struct task task = task_of(c, v);
    struct caller key = { .calls = 0 }, *caller;
    struct place place;

    symbolizer_place(c->o->in.names, task.process, &task.where,
                     v->record.from, &place);
    key.function = place.function;
    key.process = v->record.from < ADDRESS_SHARED ? task.process->comm : NULL;
    caller = g_hash_table_lookup(callers, &key);
    if (!caller) {
        caller = g_memdup2(&key, sizeof(key));
        g_hash_table_add(callers, caller);
    }
    caller->calls += o->calls;
}

static gint by_calls(gconstpointer a, gconstpointer b)
{
    const struct caller *x = *(struct caller *const *)a;
    const struct caller *y = *(struct caller *const *)b;

    return BTRAIL_COMPARE(y->calls, x->calls) ?:
           strcmp(x->function->name, y->function->name) ?:
           g_strcmp0(x->process, y->process);
}

static GPtrArray *sorted(const struct callers *c, uint64_t *all)
{
    GHashTable *callers = g_hash_table_new(hash_caller, equal_callers);
    GPtrArray *array = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter iter;
    gpointer value;

    for (unsigned i = 0; i < c->o->threads; i++) {
        g_hash_table_iter_init(&iter, c->origins[i]);
        while (g_hash_table_iter_next(&iter, &value, NULL)) {
            add_origin(c, callers, value);
        }
    }
    *all = 0;
    g_hash_table_iter_init(&iter, callers);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        g_ptr_array_add(array, value);
        *all += ((struct caller *)value)->calls;
    }
    g_hash_table_unref(callers);
    g_ptr_array_sort(array, by_calls);
    return array;
}

static void put_json(const struct caller *c)
{
    JsonObject *o = btrail_json_new("U:calls", c->calls, "s:sym",
                                    c->function->name, "s:dso",
                                    c->function->module->name, NULL);

    if (c->process) {
        btrail_json_add(o, "s:comm", c->process, NULL);
    }
    cli_print_json_line(o);
}

static void put_text(const struct caller *c, uint64_t all)
{
    cli_printf("%14" PRIu64 " %6.2f%%  %-20s  %s (%s)\n", c->calls,
               100. * c->calls / all, c->process ?: "",
               c->function->name, c->function->module->name);
}

static void print(const struct find_options *o, const GPtrArray *callers,
                  uint64_t all)
{
    if (!o->json) {
        cli_printf("#        Calls Percent  %-20s  %s\n", "Process", "Caller");
    }
    for (unsigned i = 0; i < callers->len && i < o->limit; i++) {
        if (o->json) {
            put_json(callers->pdata[i]);
        } else {
            put_text(callers->pdata[i], all);
        }
    }
    if (!o->json && callers->len > o->limit) {
        cli_printf("# ... and %" PRIu64 " more; see --limit\n",
                   callers->len - o->limit);
    }
}

static bool count_all(struct callers *c, struct finder *f, GError **error)
{
    struct find_moment found;

    if (finder_has_threads(f)) {
        return finder_each(f, count, c, error);
    }
    while (finder_next(f, &found, error)) {
        count(c, 0, &found.visit);
    }
    return !*error;
}

int find_callers(struct find_options *o, struct finder *f)
{
    struct callers c = { o, f, g_new0(GHashTable *, o->threads) };
    g_autoptr(GPtrArray) callers = NULL;
    g_autoptr(GError) error = NULL;
    int code = CLI_OK;
    uint64_t all;

    for (unsigned i = 0; i < o->threads; i++) {
        c.origins[i] = g_hash_table_new_full(btrail_pair_hash,
                                             btrail_pair_equal, g_free, NULL);
    }
    if (count_all(&c, f, &error)) {
        callers = sorted(&c, &all);
        print(o, callers, all);
        if (!all) {
            if (finder_missing(f)) {
                cli_error("%s: %s", o->in.trace.path, finder_missing(f));
            } else {
                cli_error("%s: %s was not called", o->in.trace.path,
                          o->callers_of);
            }
            code = CLI_FAILED;
        }
    } else {
        cli_error("%s: %s", o->in.trace.path, error->message);
        code = CLI_FAILED;
    }
    for (unsigned i = 0; i < o->threads; i++) {
        g_hash_table_unref(c.origins[i]);
    }
    g_free(c.origins);
    return code;
}
