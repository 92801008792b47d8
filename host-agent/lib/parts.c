/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of parts: see parts.h
 */

#include <string.h>

#include "lib/agent/parts.h"
#include "util/search.h"

#define SUFFIX  ".btrail"

/* Returns the length of what is before the number; @suffix gets the rest. */
static size_t split_name(const char *name, const char **suffix)
{
    size_t len = strlen(name), suffix_len = strlen(SUFFIX);

    if (len > suffix_len && !strcmp(name + len - suffix_len, SUFFIX)) {
        len -= suffix_len;
    }
    *suffix = name + len;
    return len;
}

char *btrail_part_path(const char *path, uint32_t part)
{
    const char *suffix;
    size_t len = split_name(path, &suffix);

    return part ? g_strdup_printf("%.*s.%" G_GUINT32_FORMAT "%s", (int)len,
                                  path, part, suffix) : g_strdup(path);
}

char *btrail_part_first(const char *path, uint32_t part)
{
    g_autofree char *number = g_strdup_printf(".%" G_GUINT32_FORMAT, part);
    const char *suffix;
    size_t len = split_name(path, &suffix), number_len = strlen(number);

    if (!part) {
        return g_strdup(path);
    }
    if (len <= number_len ||
        strncmp(path + len - number_len, number, number_len)) {
        return NULL;
    }
    return g_strdup_printf("%.*s%s", (int)(len - number_len), path, suffix);
}

uint32_t btrail_part_number(const char *path)
{
    const char *suffix;
    size_t len = split_name(path, &suffix), begin = len;
    uint64_t number;

    while (begin && g_ascii_isdigit(path[begin - 1])) {
        begin--;
    }
    /* No more digits than UINT32_MAX has, and something before the dot */
    if (begin < 2 || path[begin - 1] != '.' || path[begin - 2] == '/' ||
        begin == len || path[begin] == '0' || len - begin > 10) {
        return 0;
    }
    number = g_ascii_strtoull(path + begin, NULL, 10);
    return number <= UINT32_MAX ? number : 0;
}

/* The number in the name of a part; 0 if this is not a part. */
static uint32_t part_of(const char *name, const char *first)
{
    const char *suffix;
    size_t len = split_name(first, &suffix);
    uint64_t part = 0;

    if (strncmp(name, first, len) || name[len] != '.' ||
        name[len + 1] < '1' || name[len + 1] > '9') {
        return 0;
    }
    for (name += len + 1; *name >= '0' && *name <= '9'; name++) {
        part = part * 10 + (*name - '0');
        if (part > UINT32_MAX) {
            return 0;
        }
    }
    return strcmp(name, suffix) ? 0 : part;
}

static gint compare(gconstpointer a, gconstpointer b)
{
    return BTRAIL_COMPARE(*(const uint32_t *)a, *(const uint32_t *)b);
}

GArray *btrail_parts_find(const char *path)
{
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *first = g_path_get_basename(path);
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        uint32_t part = part_of(name, first);

        if (part) {
            g_array_append_val(parts, part);
        }
    }
    if (dir) {
        g_dir_close(dir);
    }
    g_array_sort(parts, compare);
    return parts;
}
