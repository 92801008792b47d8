/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings and symbols of an address space: see address-space.h
 */

#include <glib.h>
#include <string.h>

#include "lib/agent/strings.h"
#include "lib/agent/symbol-list.h"
#include "symbolize/address-space.h"
#include "util/function-name.h"
#include "util/kallsyms-line.h"
#include "util/search.h"

struct address_space {
    GArray *mappings;           /* of struct mapping, in order, disjoint */
    GArray *spare;              /* what the next ones are joined in */
    GString *lines;             /* of symbols */
    struct btrail_symbol_list symbols;  /* those of the lines, if @sorted */
    bool sorted;
    struct btrail_strings *strings;
};

struct address_space *address_space_new(void)
{
    struct address_space *as = g_new0(struct address_space, 1);

    as->mappings = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    as->spare = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    as->lines = g_string_new(NULL);
    as->strings = btrail_strings_new();
    return as;
}

void address_space_free(struct address_space *as)
{
    if (as) {
        g_array_unref(as->mappings);
        g_array_unref(as->spare);
        g_string_free(as->lines, TRUE);
        btrail_symbol_list_clear(&as->symbols);
        btrail_strings_free(as->strings);
        g_free(as);
    }
}

static const char *keep_string(struct address_space *as, const char *text)
{
    return text ? btrail_strings_keep(as->strings, text, strlen(text)) : NULL;
}

/* The index of the first mapping that ends after @address */
static unsigned find_mapping_index(const struct address_space *as,
                                   uint64_t address)
{
    return BTRAIL_UP_TO(as->mappings->data, as->mappings->len,
                        struct mapping, end, address);
}

void address_space_map(struct address_space *as, const struct mapping *m)
{
    struct mapping added = *m;
    unsigned i, place;

    if (m->start >= m->end) {
        return;
    }
    added.path = keep_string(as, m->path ? m->path : "");
    added.build_id = keep_string(as, m->build_id);
    place = i = find_mapping_index(as, m->start);
    while (i < as->mappings->len) {
        struct mapping *old = &g_array_index(as->mappings, struct mapping, i);
        struct mapping rest = *old;

        if (old->start >= m->end) {
            break;
        }
        rest.start = m->end;
        rest.offset += m->end - old->start;
        if (old->start < m->start) {
            uint64_t end = old->end;

            old->end = m->start;
            place = ++i;
            if (end > m->end) {
                g_array_insert_val(as->mappings, i, rest);
                break;
            }
        } else if (old->end > m->end) {
            *old = rest;
            break;
        } else {
            g_array_remove_index(as->mappings, i);
        }
    }
    g_array_insert_val(as->mappings, place, added);
}

/* Does a range map the same?  Its strings are not those of the space. */
static bool same_range(const struct mapping *a, const struct mapping *b)
{
    return a->start == b->start && a->end == b->end &&
           a->offset == b->offset && a->code == b->code &&
           (a->path == b->path || !strcmp(a->path, b->path));
}

/* Lets @m begin at @start. */
static void cut_front(struct mapping *m, uint64_t start)
{
    m->offset += start - m->start;
    m->start = start;
}

/* Continues with the mapping after *@old, if there is one. */
static void go_on(const struct mapping **old, const struct mapping *end,
                  struct mapping *rest)
{
    if (++*old < end) {
        *rest = **old;
    }
}

bool address_space_map_all(struct address_space *as,
                           const struct mapping *added, size_t n)
{
    const struct mapping *old = (const struct mapping *)as->mappings->data;
    const struct mapping *end = old + as->mappings->len;
    struct mapping rest = old < end ? *old : (struct mapping) { 0 };
    GArray *all = as->spare;
    bool changed = false;

    g_array_set_size(all, 0);
    for (const struct mapping *m = added; m < added + n; m++) {
        while (old < end && rest.end <= m->start) {
            g_array_append_val(all, rest);
            go_on(&old, end, &rest);
        }
        if (old < end && rest.start < m->start) {
            struct mapping front = rest;

            front.end = m->start;
            g_array_append_val(all, front);
            cut_front(&rest, m->start);
        }
        if (old < end && same_range(&rest, m)) {
            g_array_append_val(all, rest);
        } else {
            g_array_append_val(all, *m);
            changed = true;
        }
        while (old < end && rest.end <= m->end) {
            go_on(&old, end, &rest);
        }
        if (old < end && rest.start < m->end) {
            cut_front(&rest, m->end);
        }
    }
    if (!changed) {
        return false;
    }
    if (old < end) {
        g_array_append_val(all, rest);
        g_array_append_vals(all, old + 1, end - old - 1);
    }
    as->spare = as->mappings;
    as->mappings = all;
    return true;
}

struct mapping *address_space_find(struct address_space *as, uint64_t address)
{
    unsigned i = find_mapping_index(as, address);
    struct mapping *m;

    if (i == as->mappings->len) {
        return NULL;
    }
    m = &g_array_index(as->mappings, struct mapping, i);
    return m->start <= address ? m : NULL;
}

struct mapping *address_space_mappings(struct address_space *as, size_t *n)
{
    *n = as->mappings->len;
    return (struct mapping *)as->mappings->data;
}

/* The symbols, in order */
static const struct btrail_symbol_list *sorted(struct address_space *as)
{
    if (!as->sorted) {
        btrail_symbol_list_clear(&as->symbols);
        btrail_symbol_list_init(&as->symbols, as->lines->str, as->lines->len,
                                0);
        as->sorted = true;
    }
    return &as->symbols;
}

bool address_space_symbol(struct address_space *as, uint64_t address,
                          struct symbol *symbol)
{
    const struct btrail_symbol_list *list = sorted(as);
    struct btrail_symbol_found found = { NULL };
    g_autofree char *module = NULL;
    uint64_t end;

    btrail_symbol_list_search(list, address, &found);
    if (!found.entry || !btrail_symbol_is_code(found.entry->type)) {
        return false;
    }
    end = found.next ? found.next->address : UINT64_MAX;
    if (found.entry->module) {
        module = g_strdup_printf("[%s]", found.entry->module);
    }
    *symbol = (struct symbol) {
        .start = found.entry->address,
        .end = btrail_symbol_list_end(list, found.entry->address, end),
        .name = found.entry->name, .module = keep_string(as, module),
    };
    return address < symbol->end;
}

bool address_space_symbol_find(struct address_space *as, const char *name,
                               uint64_t *address)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(uint64_t));

    address_space_starts(as, name, all);
    if (all->len) {
        *address = g_array_index(all, uint64_t, 0);
    }
    return all->len;
}

void address_space_starts(struct address_space *as, const char *name,
                          GArray *addresses)
{
    const GArray *all = sorted(as)->entries;

    for (unsigned i = 0; i < all->len; i++) {
        const struct btrail_symbol_entry *e =
            &g_array_index(all, struct btrail_symbol_entry, i);

        if (btrail_symbol_is_code(e->type) && function_name_is(e->name, name)) {
            g_array_append_val(addresses, e->address);
        }
    }
}

/* A line is "ffffffff81000000 T name [module]", with a tab before [module]. */
bool address_space_kallsyms_line(struct address_space *as, const char *line)
{
    size_t size = strcspn(line, "\r\n");
    struct btrail_kallsyms_line s;

    if (!btrail_kallsyms_parse(line, size, &s) || !g_ascii_isalpha(s.type) ||
        !g_utf8_validate(s.name, s.name_size, NULL)) {
        return false;
    }
    g_string_append_len(as->lines, line, size);
    g_string_append_c(as->lines, '\n');
    as->sorted = false;
    return true;
}
