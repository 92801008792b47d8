/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format folded: stacks that are known, as flamegraph.pl
 * reads them
 */

#include <string.h>

#include "export-side.h"
#include "util/unquote.h"

/* Names that mislead who reads lines, and what they are in one */
static const char *const comms[] = {
    "plain", "a;b", "x 12", "v 1.5", "v 1.", "8", "v 1.x", "s 7 ", "t\t9",
    "n\nm", "\\3", NULL,
};

/* What a reader has: the number of each stack, and of all below it */
struct read {
    GHashTable *self;
    GHashTable *all;
};

static uint64_t *counter(GHashTable *table, const char *stack)
{
    uint64_t *n = g_hash_table_lookup(table, stack);

    if (!n) {
        n = g_new0(uint64_t, 1);
        g_hash_table_insert(table, g_strdup(stack), n);
    }
    return n;
}

static GHashTable *counters(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

static void add(struct read *r, const char *stack, uint64_t n)
{
    g_autofree char *part = g_strdup(stack);
    char *end;

    *counter(r->self, stack) += n;
    for (;;) {
        *counter(r->all, part) += n;
        end = strrchr(part, ';');
        if (!end) {
            break;
        }
        *end = 0;
    }
}

/* Reads lines with the two expressions of flamegraph.pl. */
static struct read read_lines(char **lines)
{
    struct read r = { counters(), counters() };
    g_autoptr(GRegex) form = g_regex_new(
        "^(.*)\\s+?(\\d+(?:\\.\\d*)?)$", 0, 0, NULL);

    for (char **line = lines; *line; line++) {
        g_autoptr(GMatchInfo) match = NULL;
        g_autofree char *stack = NULL, *count = NULL;

        g_assert_true(g_regex_match(form, *line, 0, &match));
        stack = g_match_info_fetch(match, 1);
        count = g_match_info_fetch(match, 2);
        /* This would be the count of another profile. */
        g_assert_false(g_regex_match(form, stack, 0, NULL));
        add(&r, stack, g_ascii_strtoull(count, NULL, 10));
    }
    return r;
}

static void clear(struct read *r)
{
    g_hash_table_unref(r->self);
    g_hash_table_unref(r->all);
}

/* The line's stack of one, with the task as it is */
static void append(GString *line, const struct export_stack *s,
                   const char *comm)
{
    if (s->caller) {
        append(line, s->caller, comm);
        g_string_append_printf(line, ";%s_[k]", s->function);
    } else {
        g_string_append(line, comm);
    }
}

/* Text that is quoted, as it was */
static char *unquoted(const char *text)
{
    g_autofree char *quoted = g_strdup_printf("\"%s\"", text);
    const char *end;
    size_t n;
    char *out = unquote(quoted, &end, &n);

    g_assert_nonnull(out);
    g_assert_cmpuint(n, ==, strlen(out));
    return out;
}

/* The task that a name in a line is; NULL if it is none */
static const char *task_of(const char *stack)
{
    const char *end = strchrnul(stack, ';');
    g_autofree char *quoted = g_strndup(stack, end - stack);
    g_autofree char *comm = unquoted(quoted);

    for (unsigned i = 0; comms[i]; i++) {
        if (!strcmp(comms[i], comm)) {
            return comms[i];
        }
    }
    return NULL;
}

/* Adds what the test knows, with a task's name as the lines have it. */
static struct read known(const struct export_scene *s, const struct read *lines)
{
    struct read r = { counters(), counters() };
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL,
                                                        g_free);
    GHashTableIter iter;
    const char *stack;

    g_hash_table_iter_init(&iter, lines->all);
    while (g_hash_table_iter_next(&iter, (gpointer *)&stack, NULL)) {
        const char *comm = task_of(stack);

        g_assert_nonnull(comm);
        if (!strchr(stack, ';')) {
            g_assert_true(g_hash_table_insert(names, (gpointer)comm,
                                              g_strdup(stack)));
        }
    }
    g_assert_cmpuint(g_hash_table_size(names), ==, s->n);
    for (unsigned i = 0; i < s->n; i++) {
        const struct export_vcpu *v = &s->vcpus[i];

        for (guint k = 0; k < v->stacks->len; k++) {
            g_autoptr(GString) line = g_string_new(NULL);

            append(line, v->stacks->pdata[k],
                   g_hash_table_lookup(names, v->comm));
            add(&r, line->str, 1);
        }
    }
    return r;
}

static void require_same(GHashTable *a, GHashTable *b)
{
    GHashTableIter iter;
    const char *stack;
    uint64_t *n;

    g_assert_cmpuint(g_hash_table_size(a), ==, g_hash_table_size(b));
    g_hash_table_iter_init(&iter, a);
    while (g_hash_table_iter_next(&iter, (gpointer *)&stack, (gpointer *)&n)) {
        g_assert_nonnull(g_hash_table_lookup(b, stack));
        g_assert_cmpuint(*n, ==, *(uint64_t *)g_hash_table_lookup(b, stack));
    }
}

static void test_branches(void)
{
    struct export_scene *s = export_scene_new(comms, 3000);
    g_auto(GStrv) text = export_scene_lines(s, "folded", NULL);
    struct read lines = read_lines(text), all = known(s, &lines);

    require_same(lines.self, all.self);
    clear(&lines);
    clear(&all);
    export_scene_free(s);
}

/* Of short calls, most lines are rounded down. */
static void test_times(void)
{
    struct export_scene *s = export_scene_new(comms, 3000);
    g_auto(GStrv) text = export_scene_lines(s, "folded", "--by-time");
    struct read lines = read_lines(text), all = known(s, &lines);
    GHashTableIter iter;
    const char *stack;
    uint64_t *n, *got;

    g_hash_table_iter_init(&iter, all.all);
    while (g_hash_table_iter_next(&iter, (gpointer *)&stack, (gpointer *)&n)) {
        got = g_hash_table_lookup(lines.all, stack);
        /* Less than 1 us, but for the rounding of the time of a record */
        g_assert_cmpuint(ABS((int64_t)(got ? *got * 1000 : 0) -
                             (int64_t)(*n * EXPORT_EACH)), <=, 1010);
        got = g_hash_table_lookup(lines.self, stack);
        n = g_hash_table_lookup(all.self, stack);
        g_assert_cmpuint(ABS((int64_t)(got ? *got * 1000 : 0) -
                             (int64_t)(n ? *n * EXPORT_EACH : 0)), <=, 1010);
    }
    clear(&lines);
    clear(&all);
    export_scene_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/export-folded/branches", test_branches);
    g_test_add_func("/export-folded/times", test_times);
    return g_test_run();
}
