/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sums of a call tree: see call-rows.h
 */

#include <string.h>

#include "analyze/call-rows.h"

struct call_summing {
    struct call_rows *out;
    const struct call_sum *sums;
    GHashTable *active;         /* functions on the path from the root */
};

static void add_row(struct call_summing *c, const struct stack_node *n,
                const struct function *named, const char *name, bool nested)
{
    const struct call_sum *s = &c->sums[n->id];
    const uint64_t values[ROWS_MAX_VALUES] = {
        [CALL_ROWS_ALL] = nested ? 0 : s->records,
        [CALL_ROWS_SELF] = n->records,
        [CALL_ROWS_TIME] = nested ? 0 : s->ticks / STACK_TICKS,
        [CALL_ROWS_CALLS] = n->calls,
    };
    const char *names[] = {
        n->process->comm, named ? named->module->name : "", name,
    };

    if (values[CALL_ROWS_ALL] || values[CALL_ROWS_SELF] ||
        values[CALL_ROWS_TIME] || values[CALL_ROWS_CALLS]) {
        rows_add(c->out->rows, names, values);
    }
}

static bool is_wanted(struct call_summing *c, const struct stack_node *n)
{
    if (!n->function) {
        return false;
    }
    if (function_is(n->function, c->out->function)) {
        c->out->closest.found = n->function->name;
        c->out->closest.distance = 0;
        return true;
    }
    function_offer(n->function, &c->out->closest);
    return false;
}

static void add_node(struct call_summing *c, const struct stack_node *n,
                     bool nested)
{
    const char *name = n->function->syscall;
    const struct function *caller = n->parent->function;

    switch (c->out->kind) {
    case CALL_ROWS_CHILDREN:
        add_row(c, n, n->function, n->function->name, nested);
        break;
    case CALL_ROWS_CALLERS:
        if (is_wanted(c, n)) {
            add_row(c, n, caller, caller ? caller->name : "[none]", nested);
        }
        break;
    case CALL_ROWS_CALLEES:
        /* It may have called none. */
        is_wanted(c, n);
        if (is_wanted(c, n->parent)) {
            add_row(c, n, n->function, n->function->name, nested);
        }
        break;
    default:
        if (name) {
            add_row(c, n, n->function, name, nested);
        }
        break;
    }
}

/* The tree is at most STACK_MAX_DEPTH deep. */
static void add_nodes(struct call_summing *c, const struct stack_node *n)
{
    for (; n; n = n->next) {
        bool nested = n->function &&
                      g_hash_table_contains(c->active, n->function);

        if (n->function) {
            add_node(c, n, nested);
        }
        if (n->function && !nested) {
            g_hash_table_add(c->active, (gpointer)n->function);
        }
        add_nodes(c, n->child);
        if (n->function && !nested) {
            g_hash_table_remove(c->active, n->function);
        }
    }
}

void call_rows_init(struct call_rows *c, enum call_rows_kind kind,
                    const char *function)
{
    *c = (struct call_rows) {
        .kind = kind, .function = function, .rows = rows_new(3),
        .closest = closest_to(function ? function : ""),
    };
}

void call_rows_clear(struct call_rows *c)
{
    rows_free(c->rows);
}

void call_rows_add(struct call_rows *c, const struct call_tree *t)
{
    g_autofree struct call_sum *sums = call_tree_sums(t);
    g_autoptr(GHashTable) active = g_hash_table_new(NULL, NULL);
    struct call_summing summing = { c, sums, active };
    const struct stack_node *n;

    add_nodes(&summing, stacks_roots(t->stacks));
    for (n = stacks_roots(t->stacks); n; n = n->next) {
        c->all += sums[n->id].records;
        c->all_ns += sums[n->id].ticks / STACK_TICKS;
    }
}
