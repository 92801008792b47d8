/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMCOREINFO: see vmcoreinfo.h
 */

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "guest-linux/vmcoreinfo.h"

#define FIRST   "OSRELEASE="
#define NAME    "VMCOREINFO"

bool vmcoreinfo_note(struct vmcoreinfo *v, const struct guest_memory *m,
                     uint64_t address, uint64_t size)
{
    struct {
        uint32_t name_size;
        uint32_t size;
        uint32_t type;
        char name[12];
    } note;
    uint32_t n;

    if (size < sizeof(note) ||
        !guest_memory_read(m, address, &note, sizeof(note)) ||
        GUINT32_FROM_LE(note.name_size) != sizeof(NAME) ||
        memcmp(note.name, NAME, sizeof(NAME))) {
        return false;
    }
    n = GUINT32_FROM_LE(note.size);
    if (n > VMCOREINFO_MAX || n > size - sizeof(note) ||
        !guest_memory_read(m, address + sizeof(note), v->text, n)) {
        return false;
    }
    v->text[n] = 0;
    return g_str_has_prefix(v->text, FIRST);
}

bool vmcoreinfo_find(struct vmcoreinfo *v, const struct guest_memory *m,
                     uint64_t *from)
{
    uint64_t at = guest_memory_find_page(m, *from, FIRST, strlen(FIRST));

    if (at == UINT64_MAX ||
        !guest_memory_read(m, at, v->text, GUEST_PAGE_SIZE)) {
        return false;
    }
    v->text[GUEST_PAGE_SIZE] = 0;
    *from = at + GUEST_PAGE_SIZE;
    return true;
}

static const char *find_value(const struct vmcoreinfo *v, const char *key)
{
    size_t n = strlen(key);
    const char *line;

    for (line = v->text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, n) && line[n] == '=') {
            return line + n + 1;
        }
    }
    return NULL;
}

char *vmcoreinfo_string(const struct vmcoreinfo *v, const char *key)
{
    const char *value = find_value(v, key);

    return value ? g_strndup(value, strcspn(value, "\n")) : NULL;
}

static const char *find_of(const struct vmcoreinfo *v, const char *kind,
                           const char *name)
{
    g_autofree char *key = g_strdup_printf("%s(%s)", kind, name);

    return find_value(v, key);
}

bool vmcoreinfo_symbol(const struct vmcoreinfo *v, const char *name,
                       uint64_t *value)
{
    const char *text = find_of(v, "SYMBOL", name);
    char *end;

    if (!text || !g_ascii_isxdigit(*text)) {
        return false;
    }
    errno = 0;
    *value = g_ascii_strtoull(text, &end, 16);
    return !errno && (*end == '\n' || !*end);
}

bool vmcoreinfo_number(const struct vmcoreinfo *v, const char *name,
                       int64_t *value)
{
    const char *text = find_of(v, "NUMBER", name);
    char *end;

    if (!text || !(g_ascii_isdigit(*text) || *text == '-')) {
        return false;
    }
    errno = 0;
    *value = g_ascii_strtoll(text, &end, 10);
    return !errno && (*end == '\n' || !*end);
}
