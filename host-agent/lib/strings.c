/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Strings that are kept once each: see strings.h
 */

#include <string.h>

#include "lib/agent/strings.h"
#include "util/hash.h"

/* Of the allocator and of the table, for each string */
#define OVERHEAD    64

struct kept_string {
    const char *data;
    size_t size;
};

struct btrail_strings {
    GHashTable *all;            /* of struct kept_string, its bytes after it */
    uint64_t memory;
};

static guint hash_string(gconstpointer p)
{
    const struct kept_string *s = p;

    return btrail_hash_bytes(s->data, s->size) >> 32;
}

static gboolean equal_strings(gconstpointer a, gconstpointer b)
{
    const struct kept_string *x = a, *y = b;

    return x->size == y->size && !memcmp(x->data, y->data, x->size);
}

struct btrail_strings *btrail_strings_new(void)
{
    struct btrail_strings *strings = g_new0(struct btrail_strings, 1);

    strings->all = g_hash_table_new_full(hash_string, equal_strings, g_free,
                                         NULL);
    return strings;
}

void btrail_strings_free(struct btrail_strings *strings)
{
    if (strings) {
        g_hash_table_destroy(strings->all);
        g_free(strings);
    }
}

const char *btrail_strings_keep(struct btrail_strings *strings,
                                const void *data, size_t size)
{
    const struct kept_string key = { size ? data : "", size };
    struct kept_string *s = g_hash_table_lookup(strings->all, &key);
    char *bytes;

    if (!s) {
        s = g_malloc(sizeof(*s) + size + 1);
        bytes = (char *)(s + 1);
        memcpy(bytes, key.data, size);
        bytes[size] = '\0';
        *s = (struct kept_string) { bytes, size };
        g_hash_table_add(strings->all, s);
        strings->memory += sizeof(*s) + size + OVERHEAD;
    }
    return s->data;
}

uint64_t btrail_strings_memory(const struct btrail_strings *strings)
{
    return strings->memory;
}
