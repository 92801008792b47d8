/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report of call stacks: what functions and those that they called
 * took, who called whom, and system calls
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/call-tree.h"
#include "cli/call-warnings.h"
#include "cli/report.h"
#include "cli/rows.h"

/* Values of rows */
enum {
    ALL,                        /* records, with those of callees */
    SELF,
    TIME,                       /* of ALL, in nanoseconds */
    CALLS,
};

struct calls {
    struct report *report;
    enum report_calls kind;
    const char *function;
    const struct call_sum *sums;
    GHashTable *active;         /* functions on the way from the root */
    struct rows *rows;
};

/* The name of the system call that a function is the beginning of, or NULL */
static const char *syscall_name(const struct function *f)
{
    static const char *const prefixes[] = {
        "__x64_sys_", "__ia32_compat_sys_", "__ia32_sys_",
    };
    unsigned i;

    for (i = 0; f && f->module->kernel && i < G_N_ELEMENTS(prefixes); i++) {
        if (g_str_has_prefix(f->name, prefixes[i])) {
            return f->name + strlen(prefixes[i]);
        }
    }
    return NULL;
}

static void add(struct calls *c, const struct stack_node *n,
                const struct function *named, const char *name, bool nested)
{
    const struct call_sum *s = &c->sums[n->id];
    const uint64_t values[ROWS_MAX_VALUES] = {
        [ALL] = nested ? 0 : s->records,
        [SELF] = n->records,
        [TIME] = nested ? 0 : s->ticks / STACK_TICKS,
        [CALLS] = n->calls,
    };
    const char *names[] = {
        n->process->comm, named ? named->module->name : "", name,
    };

    if (values[ALL] || values[SELF] || values[TIME] || values[CALLS]) {
        rows_add(c->rows, names, values);
    }
}

static bool is_sought(const struct calls *c, const struct stack_node *n)
{
    return n->function && !strcmp(n->function->name, c->function);
}

static void add_node(struct calls *c, const struct stack_node *n, bool nested)
{
    const char *name = syscall_name(n->function);
    const struct function *caller = n->parent->function;

    switch (c->kind) {
    case REPORT_CHILDREN:
        add(c, n, n->function, n->function->name, nested);
        break;
    case REPORT_CALLERS:
        if (is_sought(c, n)) {
            add(c, n, caller, caller ? caller->name : "[none]", nested);
        }
        break;
    case REPORT_CALLEES:
        if (is_sought(c, n->parent)) {
            add(c, n, n->function, n->function->name, nested);
        }
        break;
    default:
        if (name) {
            add(c, n, n->function, name, nested);
        }
        break;
    }
}

/* No deeper than STACK_MAX_DEPTH */
static void walk(struct calls *c, const struct stack_node *n)
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
        walk(c, n->child);
        if (n->function && !nested) {
            g_hash_table_remove(c->active, n->function);
        }
    }
}

static void set_counts(JsonObject *root, const struct stack_counts *s)
{
    JsonObject *o = json_object_new();

    json_object_set_int_member(o, "calls", s->calls);
    json_object_set_int_member(o, "returns", s->returns);
    json_object_set_int_member(o, "interrupts", s->interrupts);
    json_object_set_int_member(o, "entries", s->entries);
    json_object_set_int_member(o, "wrongly_nested", s->nested);
    json_object_set_int_member(o, "jumps_out", s->jumps_out);
    json_object_set_int_member(o, "signals", s->signals);
    json_object_set_int_member(o, "switches", s->switches);
    json_object_set_int_member(o, "resumed", s->resumed);
    json_object_set_int_member(o, "unknown_returns", s->unknown);
    json_object_set_int_member(o, "astray", s->astray);
    json_object_set_int_member(o, "gaps", s->gaps);
    json_object_set_int_member(o, "dropped", s->dropped);
    json_object_set_int_member(o, "no_code", s->no_code);
    json_object_set_int_member(o, "likely", s->likely);
    json_object_set_object_member(root, "stacks", o);
}

static void print_json(const struct calls *c, const struct call_tree *t,
                       struct row **rows, size_t n)
{
    JsonObject *root = json_object_new();
    JsonArray *array = json_array_new();
    size_t i;

    json_object_set_int_member(root, "records", t->records);
    set_counts(root, stacks_counts(t->stacks));
    for (i = 0; i < n; i++) {
        JsonObject *o = json_object_new();

        json_object_set_int_member(o, "records", rows[i]->values[ALL]);
        json_object_set_int_member(o, "self", rows[i]->values[SELF]);
        json_object_set_int_member(o, "ns", rows[i]->values[TIME]);
        json_object_set_int_member(o, "calls", rows[i]->values[CALLS]);
        json_object_set_string_member(o, "comm", rows[i]->names[0]);
        json_object_set_string_member(o, "dso", rows[i]->names[1]);
        json_object_set_string_member(o, "sym", rows[i]->names[2]);
        json_array_add_object_element(array, o);
    }
    json_object_set_array_member(root, "rows", array);
    cli_print_json(root);
}

static void print_text(const struct calls *c, const struct call_tree *t,
                       uint64_t all, struct row **rows, size_t n)
{
    const struct report *r = c->report;
    size_t i;

    printf("# %" PRIu64 " records\n#\n", all);
    printf("# Children     Self       Time (s)          Calls  %-16s  %-20s  "
           "%s\n", "Command", "Shared Object",
           c->kind == REPORT_SYSCALLS ? "System call" : "Symbol");
    for (i = 0; i < n; i++) {
        const struct row *row = rows[i];
        double share = 100 * report_share(row->values[ALL], all);

        if (share < r->min_share || (r->top && i == r->top)) {
            break;
        }
        printf("  %7.2f%% %7.2f%% %14.6f %14" PRIu64 "  %-16s  %-20s  %s\n",
               share, 100 * report_share(row->values[SELF], all),
               row->values[TIME] / 1e9, row->values[CALLS], row->names[0],
               row->names[1], row->names[2]);
    }
    if (i < n) {
        printf("# %zu more rows; --min-share=0 --top=0 shows them\n", n - i);
    }
}

int report_call_stacks(struct report *r, enum report_calls kind,
                       const char *function)
{
    const struct call_tree_options options = {
        .names = r->names, .filter = r->filter,
        .window = WINDOW_ALL(r->trace.start), .tick = r->trace.tick,
    };
    struct calls c = { .report = r, .kind = kind, .function = function };
    g_autofree struct call_sum *sums = NULL;
    const struct stack_node *node;
    struct call_tree t;
    struct row **rows;
    uint64_t all = 0;
    size_t n;
    int ret = call_tree_read(&t, r->trace.trace, &options);

    if (ret) {
        return report_failed(r, ret);
    }
    c.sums = sums = call_tree_sums(&t);
    c.active = g_hash_table_new(NULL, NULL);
    c.rows = rows_new(3);
    walk(&c, stacks_roots(t.stacks));
    for (node = stacks_roots(t.stacks); node; node = node->next) {
        all += sums[node->id].records;
    }
    rows = rows_sorted(c.rows, ALL, &n);
    if (r->json) {
        print_json(&c, &t, rows, n);
    } else {
        print_text(&c, &t, all, rows, n);
        fflush(stdout);
        call_warnings_print(&t);
    }
    r->damage = t.damage;
    rows_free(c.rows);
    g_hash_table_unref(c.active);
    call_tree_clear(&t);
    return CLI_OK;
}
