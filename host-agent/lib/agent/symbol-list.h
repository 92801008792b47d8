/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols of a text in the form of /proc/kallsyms, in the order of addresses
 *
 * Of several symbols at one address Linux (5.10 to 7.3) prints the first one of
 * its table: get_symbol_pos() in kernel/kallsyms.c goes back to the first of
 * the aliases, and find_kallsyms_symbol() of modules takes a later symbol only
 * if its address is higher.  It is the same here.
 */

#ifndef BTRAIL_SYMBOL_LIST_H
#define BTRAIL_SYMBOL_LIST_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct btrail_symbol_entry
 * @module: NULL if it is of none
 * @order:  its place in the text
 */
struct btrail_symbol_entry {
    uint64_t address;
    const char *name;
    const char *module;
    uint32_t order;
    char type;
};

/**
 * struct btrail_symbol_list
 * @text:    with NULs where names end
 * @size:    of it
 * @entries: of struct btrail_symbol_entry, by address and @order
 * @ends:    addresses (uint64_t) of end lines, in order
 */
struct btrail_symbol_list {
    char *text;
    size_t size;
    GArray *entries;
    GArray *ends;
};

/**
 * struct btrail_symbol_found - what is around an address
 * @entry: the last one that begins at or before it, the first of its aliases;
 *         or NULL
 * @next:  the first one that begins after it; or NULL
 */
struct btrail_symbol_found {
    const struct btrail_symbol_entry *entry;
    const struct btrail_symbol_entry *next;
};

/*
 * Parses a text.  What is below an address is left out, and so are lines of
 * another form.
 */
void btrail_symbol_list_init(struct btrail_symbol_list *list, const char *text,
                             size_t size, uint64_t lowest);
void btrail_symbol_list_clear(struct btrail_symbol_list *list);

/* Is this the text that a list was made of? */
bool btrail_symbol_list_is(const struct btrail_symbol_list *list,
                           const char *text, size_t size);

/*
 * Searches for an address.  What is nearer to it than what @found has replaces
 * that, so that several lists can be searched one after the other.
 */
void btrail_symbol_list_search(const struct btrail_symbol_list *list,
                               uint64_t address,
                               struct btrail_symbol_found *found);

/* The first end line after an address, or @end if that is before it */
uint64_t btrail_symbol_list_end(const struct btrail_symbol_list *list,
                                uint64_t address, uint64_t end);

/* Is it the symbol of code? */
bool btrail_symbol_is_code(char type);

/* About how many bytes the list takes */
size_t btrail_symbol_list_memory(const struct btrail_symbol_list *list);

#endif /* BTRAIL_SYMBOL_LIST_H */
