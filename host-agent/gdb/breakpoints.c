/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints and watchpoints: see breakpoints.h
 */

#include <inttypes.h>
#include <stdlib.h>

#include "gdb/breakpoints.h"

GHashTable *breakpoints_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

char *breakpoints_key(uint64_t type, uint64_t address, uint64_t kind)
{
    return g_strdup_printf("%" PRIx64 ",%" PRIx64 ",%" PRIx64, type, address,
                           kind);
}

void breakpoints_set(GHashTable *breakpoints, const char *key,
                     const char *conditions)
{
    if (conditions) {
        g_hash_table_insert(breakpoints, g_strdup(key), g_strdup(conditions));
    } else {
        g_hash_table_remove(breakpoints, key);
    }
}

GArray *breakpoints_addresses(GHashTable *breakpoints)
{
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, breakpoints);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        const char *text = key;
        uint64_t address;

        if ((text[0] != '0' && text[0] != '1') || text[1] != ',') {
            return NULL;
        }
        address = strtoull(text + 2, NULL, 16);
        g_array_append_val(addresses, address);
    }
    return g_steal_pointer(&addresses);
}
