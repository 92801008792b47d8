/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols of the kernel over time: see kernel-symbols.h
 */

#include <glib.h>
#include <string.h>

#include "lib/internal/kernel-symbols.h"
#include "util/kallsyms-line.h"
#include "util/search.h"

/* A symbol without a next one is no longer than this. */
#define SYMBOL_SIZE_MAX (1u << 20)
/* The longest name of a symbol or a module; those of Linux are shorter. */
#define SYMBOL_NAME_MAX        4096
/* About what a table takes without symbols */
#define TABLE_SIZE      256
/* Where the kernel's half begins, with page tables of any depth */
#define KERNEL_HALF     (UINT64_C(1) << 63)

/* As they were read at one time */
struct symbol_table {
    uint64_t time;
    uint64_t first;             /* symbols in the tables before */
    char *text;                 /* with NULs where names end */
    GArray *entries;            /* struct table_entry, by address */
};

struct table_entry {
    uint64_t address;
    const char *name;
    const char *module;
    uint32_t order;
    char type;
};

static gint by_address(gconstpointer p, gconstpointer q)
{
    const struct table_entry *a = p, *b = q;

    return BTRAIL_COMPARE(a->address, b->address) ?:
           BTRAIL_COMPARE(a->order, b->order);
}

uint64_t btrail_kernel_symbols_add(GPtrArray *symbols, uint64_t time,
                                   const char *data, size_t size)
{
    struct symbol_table *s = g_new0(struct symbol_table, 1);
    struct btrail_kallsyms_line line;
    const char *p, *end;

    if (symbols->len) {
        const struct symbol_table *last = symbols->pdata[symbols->len - 1];

        s->first = last->first + last->entries->len;
    }
    s->time = time;
    s->text = g_malloc(size + 1);
    if (size) {
        memcpy(s->text, data, size);
    }
    s->entries = g_array_new(FALSE, FALSE, sizeof(struct table_entry));
    p = s->text;
    end = s->text + size;
    while (btrail_kallsyms_next(&p, end, &line)) {
        struct table_entry entry = {
            .address = line.address, .name = line.name, .module = line.module,
            .order = s->entries->len, .type = line.type,
        };

        s->text[line.name + line.name_size - s->text] = '\0';
        if (line.module) {
            s->text[line.module + line.module_size - s->text] = '\0';
        }
        if (line.address >= KERNEL_HALF &&
            line.name_size <= SYMBOL_NAME_MAX &&
            line.module_size <= SYMBOL_NAME_MAX) {
            g_array_append_val(s->entries, entry);
        }
    }
    g_array_sort(s->entries, by_address);
    g_ptr_array_add(symbols, s);
    return TABLE_SIZE + size + s->entries->len * sizeof(struct table_entry);
}

static void free_symbols(gpointer p)
{
    struct symbol_table *s = p;

    g_free(s->text);
    g_array_free(s->entries, TRUE);
    g_free(s);
}

GPtrArray *btrail_kernel_symbols_new(void)
{
    return g_ptr_array_new_with_free_func(free_symbols);
}

/* @next: the first entry that begins behind it */
static void set_symbol(struct btrail_symbol *symbol,
                       const struct symbol_table *s,
                       const struct table_entry *found, guint next)
{
    *symbol = (struct btrail_symbol) {
        .address = found->address,
        .end = found->address > UINT64_MAX - SYMBOL_SIZE_MAX ?
               UINT64_MAX : found->address + SYMBOL_SIZE_MAX,
        .name = found->name,
        .module = found->module,
        .type = found->type,
    };
    if (next < s->entries->len) {
        symbol->end = MIN(symbol->end, g_array_index(
            s->entries, struct table_entry, next).address);
    }
}

int btrail_kernel_symbols_find(const GPtrArray *symbols, uint64_t time,
                               uint64_t address, struct btrail_symbol *symbol)
{
    const struct symbol_table *s;
    const struct table_entry *found;
    guint n, next, first;

    if (!symbols->len) {
        return -BTRAIL_ERR_END;
    }
    n = BTRAIL_PTRS_UP_TO(symbols, struct symbol_table, time, time);
    s = g_ptr_array_index(symbols, n ? n - 1 : 0);
    next = BTRAIL_UP_TO(s->entries->data, s->entries->len, struct table_entry,
                        address, address);
    if (!next) {
        return -BTRAIL_ERR_END;
    }
    found = &g_array_index(s->entries, struct table_entry, next - 1);
    first = BTRAIL_UP_TO(s->entries->data, s->entries->len, struct table_entry,
                         address, found->address - 1);
    found = &g_array_index(s->entries, struct table_entry, first);
    set_symbol(symbol, s, found, next);
    return address < symbol->end ? 0 : -BTRAIL_ERR_END;
}

int btrail_kernel_symbols_get(const GPtrArray *symbols, size_t i,
                              struct btrail_symbol *symbol)
{
    size_t n = BTRAIL_PTRS_UP_TO(symbols, struct symbol_table, first, i);
    const struct symbol_table *s = n ? symbols->pdata[n - 1] : NULL;
    const struct table_entry *found;
    guint next;

    if (!s || i - s->first >= s->entries->len) {
        return -BTRAIL_ERR_END;
    }
    found = &g_array_index(s->entries, struct table_entry, i - s->first);
    next = BTRAIL_UP_TO(s->entries->data, s->entries->len,
                        struct table_entry, address, found->address);
    set_symbol(symbol, s, found, next);
    return 0;
}
