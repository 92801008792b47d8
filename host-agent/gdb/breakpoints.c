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

/* False if it is a watchpoint */
static bool address_of(const char *key, uint64_t *address)
{
    if ((key[0] != '0' && key[0] != '1') || key[1] != ',') {
        return false;
    }
    *address = strtoull(key + 2, NULL, 16);
    return true;
}

bool breakpoints_is_at(const char *key, uint64_t address)
{
    uint64_t at;

    return address_of(key, &at) && at == address;
}

GArray *breakpoints_addresses(GHashTable *breakpoints)
{
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, breakpoints);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        uint64_t address;

        if (!address_of(key, &address)) {
            return NULL;
        }
        g_array_append_val(addresses, address);
    }
    return g_steal_pointer(&addresses);
}
