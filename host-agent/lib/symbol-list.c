/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols in the order of addresses: see symbol-list.h
 */

#include <string.h>

#include "lib/agent/symbol-list.h"
#include "util/kallsyms-line.h"
#include "util/search.h"
#include "util/sort.h"

/* The longest name of a symbol or a module; those of Linux are shorter. */
#define NAME_MAX_SIZE   4096

static gint by_address(gconstpointer p, gconstpointer q)
{
    const struct btrail_symbol_entry *a = p, *b = q;

    return BTRAIL_COMPARE(a->address, b->address) ?:
           BTRAIL_COMPARE(a->order, b->order);
}

static void add_line(struct btrail_symbol_list *list,
                     const struct btrail_kallsyms_line *line)
{
    struct btrail_symbol_entry entry = {
        .address = line->address, .name = line->name, .module = line->module,
        .order = list->entries->len, .type = line->type,
    };

    if (btrail_kallsyms_is_end(line)) {
        g_array_append_val(list->ends, entry.address);
        return;
    }
    list->text[line->name + line->name_size - list->text] = '\0';
    if (line->module) {
        list->text[line->module + line->module_size - list->text] = '\0';
    }
    g_array_append_val(list->entries, entry);
}

void btrail_symbol_list_init(struct btrail_symbol_list *list, const char *text,
                             size_t size, uint64_t lowest)
{
    struct btrail_kallsyms_line line;
    const char *p, *end;

    list->size = size;
    list->text = g_malloc(size + 1);
    if (size) {
        memcpy(list->text, text, size);
    }
    list->entries = g_array_new(FALSE, FALSE,
                                sizeof(struct btrail_symbol_entry));
    list->ends = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    p = list->text;
    end = list->text + size;
    while (btrail_kallsyms_next(&p, end, &line)) {
        if (line.address >= lowest && line.name_size <= NAME_MAX_SIZE &&
            line.module_size <= NAME_MAX_SIZE) {
            add_line(list, &line);
        }
    }
    g_array_sort(list->entries, by_address);
    btrail_order_u64(list->ends);
}

void btrail_symbol_list_clear(struct btrail_symbol_list *list)
{
    g_clear_pointer(&list->text, g_free);
    g_clear_pointer(&list->entries, g_array_unref);
    g_clear_pointer(&list->ends, g_array_unref);
}

bool btrail_symbol_list_is(const struct btrail_symbol_list *list,
                           const char *text, size_t size)
{
    if (list->size != size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        /* Where names end, the list has a NUL. */
        if (list->text[i] != text[i] &&
            (list->text[i] || !strchr(" \t\n]", text[i]))) {
            return false;
        }
    }
    return true;
}

void btrail_symbol_list_search(const struct btrail_symbol_list *list,
                               uint64_t address,
                               struct btrail_symbol_found *found)
{
    const struct btrail_symbol_entry *all = (void *)list->entries->data;
    size_t first, n, len = list->entries->len;

    /* Most lists of many have nothing near. */
    if (!len || (all[0].address > address && found->next &&
                 all[0].address >= found->next->address) ||
        (all[len - 1].address <= address && found->entry &&
         all[len - 1].address <= found->entry->address)) {
        return;
    }
    n = BTRAIL_UP_TO(all, len, struct btrail_symbol_entry, address, address);
    if (n && (!found->entry || all[n - 1].address > found->entry->address)) {
        first = all[n - 1].address ?
                BTRAIL_UP_TO(all, n, struct btrail_symbol_entry, address,
                             all[n - 1].address - 1) : 0;
        found->entry = &all[first];
    }
    if (n < len &&
        (!found->next || all[n].address < found->next->address)) {
        found->next = &all[n];
    }
}

uint64_t btrail_symbol_list_end(const struct btrail_symbol_list *list,
                                uint64_t address, uint64_t end)
{
    const uint64_t *all = (void *)list->ends->data;
    size_t n, len = list->ends->len;

    if (!len || all[0] >= end || all[len - 1] <= address) {
        return end;
    }
    n = btrail_up_to(all, len, sizeof(*all), false, 0, address);
    return MIN(all[n], end);
}

bool btrail_symbol_is_code(char type)
{
    return type && strchr("tTwWi", type);
}

size_t btrail_symbol_list_memory(const struct btrail_symbol_list *list)
{
    return list->size +
           list->entries->len * sizeof(struct btrail_symbol_entry) +
           list->ends->len * sizeof(uint64_t);
}
