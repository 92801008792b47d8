/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls of the kernel: see syscall-table.h
 */

#include <glib.h>

#include "lib/internal/syscall-table.h"
#include "util/search.h"

/* More than all tables of a kernel have */
#define ENTRIES_MAX     4096
/* About what a table takes without entries */
#define TABLE_SIZE      256

/* As it was read at one time */
struct syscall_table {
    uint32_t kernel;
    uint32_t number;
    uint64_t time;
    GArray *entries;            /* struct syscall_entry, by address */
};

struct syscall_entry {
    uint64_t address;
    struct btrail_syscall syscall;
};

static gint by_address(gconstpointer p, gconstpointer q)
{
    const struct syscall_entry *a = p, *b = q;

    return BTRAIL_COMPARE(a->address, b->address) ?:
           BTRAIL_COMPARE(b->syscall.bits, a->syscall.bits) ?:
           BTRAIL_COMPARE(a->syscall.number, b->syscall.number);
}

/* Gets a number from *@p on, and moves *@p past the @end that follows it. */
static bool get_number(const char **p, unsigned base, char end, uint64_t max,
                       uint64_t *value)
{
    char *after;

    if (!g_ascii_isxdigit(**p)) {
        return false;
    }
    *value = g_ascii_strtoull(*p, &after, base);
    *p = after + 1;
    return *after == end && *value <= max;
}

static bool parse_line(const char *line, struct syscall_entry *e)
{
    uint64_t bits, number;

    if (!get_number(&line, 10, ' ', 64, &bits) ||
        !get_number(&line, 10, ' ', UINT32_MAX, &number) ||
        !get_number(&line, 16, '\0', UINT64_MAX, &e->address)) {
        return false;
    }
    e->syscall = (struct btrail_syscall) { bits, number, 1 };
    return bits == 32 || bits == 64;
}

uint64_t btrail_syscall_tables_add(GPtrArray *tables, uint32_t kernel,
                                   uint64_t time, const char *data,
                                   size_t size)
{
    g_autofree char *text = g_strndup(data, size);
    struct syscall_table *t = g_new0(struct syscall_table, 1);
    char *line = text, *end;

    t->kernel = kernel;
    t->number = tables->len;
    t->time = time;
    t->entries = g_array_new(FALSE, FALSE, sizeof(struct syscall_entry));
    for (; (end = strchr(line, '\n')) && t->entries->len < ENTRIES_MAX;
         line = end + 1) {
        struct syscall_entry e;

        *end = '\0';
        if (parse_line(line, &e)) {
            g_array_append_val(t->entries, e);
        }
    }
    g_array_sort(t->entries, by_address);
    for (guint i = t->entries->len; i-- > 1;) {
        struct syscall_entry *e = &g_array_index(t->entries,
                                                 struct syscall_entry, i);

        if (e[-1].address == e->address &&
            e[-1].syscall.bits == e->syscall.bits) {
            e[-1].syscall.numbers += e->syscall.numbers;
        }
    }
    g_ptr_array_add(tables, t);
    return TABLE_SIZE + t->entries->len * sizeof(struct syscall_entry);
}

static void free_table(gpointer p)
{
    struct syscall_table *t = p;

    g_array_free(t->entries, TRUE);
    g_free(t);
}

GPtrArray *btrail_syscall_tables_new(void)
{
    return g_ptr_array_new_with_free_func(free_table);
}

static gint by_kernel(gconstpointer p, gconstpointer q)
{
    const struct syscall_table *a = *(const struct syscall_table *const *)p;
    const struct syscall_table *b = *(const struct syscall_table *const *)q;

    return BTRAIL_COMPARE(a->kernel, b->kernel) ?:
           BTRAIL_COMPARE(a->time, b->time) ?:
           BTRAIL_COMPARE(a->number, b->number);
}

void btrail_syscall_tables_complete(GPtrArray *tables)
{
    g_ptr_array_sort(tables, by_kernel);
}

/* A kernel's table at a time: its last one by then, or else its first */
static const struct syscall_table *find_table(const GPtrArray *tables,
                                              uint32_t kernel, uint64_t time)
{
    const struct syscall_table *const *all =
        (const struct syscall_table *const *)tables->pdata;
    guint low = 0, high = tables->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;
        const struct syscall_table *t = all[middle];

        if (t->kernel < kernel || (t->kernel == kernel && t->time <= time)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low && all[low - 1]->kernel == kernel) {
        return all[low - 1];
    }
    return low < tables->len && all[low]->kernel == kernel ? all[low] : NULL;
}

int btrail_syscall_tables_find(const GPtrArray *tables, uint32_t kernel,
                               uint64_t time, uint64_t address,
                               struct btrail_syscall *syscall)
{
    const struct syscall_table *t = find_table(tables, kernel, time);
    const struct syscall_entry *e;
    guint first;

    if (!t || !address) {
        return -BTRAIL_ERR_END;
    }
    first = BTRAIL_UP_TO(t->entries->data, t->entries->len,
                         struct syscall_entry, address, address - 1);
    if (first == t->entries->len) {
        return -BTRAIL_ERR_END;
    }
    e = &g_array_index(t->entries, struct syscall_entry, first);
    *syscall = e->syscall;
    return e->address == address ? 0 : -BTRAIL_ERR_END;
}
