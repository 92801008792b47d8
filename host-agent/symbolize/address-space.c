/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings and symbols of an address space: see address-space.h
 */

#include <glib.h>
#include <string.h>

#include "lib/internal/strings.h"
#include "symbolize/address-space.h"
#include "util/kallsyms-line.h"
#include "util/search.h"

struct address_space {
    GArray *mappings;           /* of struct mapping, in order, disjoint */
    GArray *spare;              /* what the next ones are joined in */
    GArray *symbols;            /* of struct symbol */
    bool sorted;
    struct btrail_strings *strings;
};

struct address_space *address_space_new(void)
{
    struct address_space *as = g_new0(struct address_space, 1);

    as->mappings = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    as->spare = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    as->symbols = g_array_new(FALSE, FALSE, sizeof(struct symbol));
    as->strings = btrail_strings_new();
    return as;
}

void address_space_free(struct address_space *as)
{
    if (as) {
        g_array_unref(as->mappings);
        g_array_unref(as->spare);
        g_array_unref(as->symbols);
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

/* Goes on with the mapping behind *@old, if there is one. */
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

void address_space_symbol_add(struct address_space *as, uint64_t start,
                              const char *name, const char *module)
{
    struct symbol s = {
        start, 0, keep_string(as, name), keep_string(as, module),
    };

    g_array_append_val(as->symbols, s);
    as->sorted = false;
}

/* Orders symbols by address; of those at one address, by name, NULL last. */
static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;

    return BTRAIL_COMPARE(x->start, y->start) ?:
           (!x->name || !y->name ? !x->name - !y->name :
            strcmp(x->name, y->name));
}

static void sort_symbols(struct address_space *as)
{
    struct symbol *all = (struct symbol *)as->symbols->data;
    unsigned i, n = 0;

    if (as->sorted) {
        return;
    }
    as->sorted = true;
    if (!as->symbols->len) {
        return;
    }
    qsort(all, as->symbols->len, sizeof(*all), compare_symbols);
    for (i = 0; i < as->symbols->len; i++) {
        if (!n || all[i].start != all[n - 1].start) {
            all[n++] = all[i];
        }
    }
    g_array_set_size(as->symbols, n);
    for (i = 0; i < n; i++) {
        all[i].end = i + 1 < n ? all[i + 1].start : UINT64_MAX;
    }
}

const struct symbol *address_space_symbol(struct address_space *as,
                                          uint64_t address)
{
    const struct symbol *all;
    size_t n;

    sort_symbols(as);
    all = (const struct symbol *)as->symbols->data;
    n = BTRAIL_UP_TO(all, as->symbols->len, struct symbol, start, address);
    return n && all[n - 1].name ? &all[n - 1] : NULL;
}

bool address_space_symbol_find(struct address_space *as, const char *name,
                               uint64_t *address)
{
    for (unsigned i = 0; i < as->symbols->len; i++) {
        const struct symbol *s = &g_array_index(as->symbols, struct symbol,
                                                i);

        if (!g_strcmp0(s->name, name)) {
            *address = s->start;
            return true;
        }
    }
    return false;
}

void address_space_starts(struct address_space *as, const char *name,
                          GArray *addresses)
{
    for (unsigned i = 0; i < as->symbols->len; i++) {
        const struct symbol *s = &g_array_index(as->symbols, struct symbol,
                                                i);

        if (!g_strcmp0(s->name, name)) {
            g_array_append_val(addresses, s->start);
        }
    }
}

void address_space_kallsyms(struct address_space *as, uint64_t address,
                            char type, const char *name, const char *module)
{
    address_space_symbol_add(as, address, strchr("tTwWi", type) ? name : NULL,
                             module);
}

/* A line is "ffffffff81000000 T name [module]", with a tab before [module]. */
bool address_space_kallsyms_line(struct address_space *as, const char *line)
{
    struct btrail_kallsyms_line s;
    g_autofree char *name = NULL, *module = NULL;

    if (!btrail_kallsyms_parse(line, strcspn(line, "\r\n"), &s) ||
        !g_ascii_isalpha(s.type) ||
        !g_utf8_validate(s.name, s.name_size, NULL)) {
        return false;
    }
    name = g_strndup(s.name, s.name_size);
    if (s.module) {
        module = g_strdup_printf("[%.*s]", (int)s.module_size, s.module);
    }
    address_space_kallsyms(as, s.address, s.type, name, module);
    return true;
}
