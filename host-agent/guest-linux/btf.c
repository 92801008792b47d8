/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's BTF: see btf.h
 *
 * libbpf checks that types and strings lie within the data, but not what types
 * refer to.  This file follows references by number, to at most DEPTH_MAX.
 */

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <glib.h>
#include <string.h>

#include "guest-linux/btf.h"
#include "util/hash.h"

#define DEPTH_MAX   32
#define WORK_MAX    100000      /* members that are compared to find one */

struct linux_btf {
    struct btf *btf;
    GHashTable *by_name;        /* GArray of the numbers of structs, unions and
                                   enums that have this name */
};

static int quiet(enum libbpf_print_level level, const char *format,
                 va_list args)
{
    return 0;
}

static bool header_valid(const void *data, size_t size)
{
    struct btf_header h;

    if (size < sizeof(h) || size > LINUX_BTF_MAX) {
        return false;
    }
    memcpy(&h, data, sizeof(h));
    return h.magic == BTF_MAGIC && h.version == BTF_VERSION &&
           h.hdr_len == sizeof(h) && h.type_off == 0 &&
           h.type_len % 4 == 0 && h.str_off == h.type_len &&
           h.str_len && h.str_len <= size - sizeof(h) &&
           h.type_len <= size - sizeof(h) - h.str_len;
}

static const char *type_name(const struct linux_btf *b, uint32_t offset)
{
    const char *name = btf__name_by_offset(b->btf, offset);

    return name ? name : "";
}

static void list_names(struct linux_btf *b)
{
    uint32_t n = btf__type_cnt(b->btf);

    for (uint32_t i = 1; i < n; i++) {
        const struct btf_type *t = btf__type_by_id(b->btf, i);
        const char *name;
        GArray *ids;

        if (!t || (!btf_is_composite(t) && !btf_is_enum(t))) {
            continue;
        }
        name = type_name(b, t->name_off);
        if (!*name) {
            continue;
        }
        ids = g_hash_table_lookup(b->by_name, name);
        if (!ids) {
            ids = g_array_new(FALSE, FALSE, sizeof(i));
            g_hash_table_insert(b->by_name, (gpointer)name, ids);
        }
        g_array_append_val(ids, i);
    }
}

/* Returns the @i-th type of this name, NULL if there are no more. */
static const struct btf_type *type_by_name(const struct linux_btf *b,
                                           const char *name, uint32_t i)
{
    const GArray *ids = g_hash_table_lookup(b->by_name, name);

    return ids && i < ids->len ?
           btf__type_by_id(b->btf, g_array_index(ids, uint32_t, i)) : NULL;
}

struct linux_btf *linux_btf_new(const void *data, size_t size)
{
    struct linux_btf *b;
    struct btf *btf;

    if (!header_valid(data, size)) {
        return NULL;
    }
    libbpf_set_print(quiet);
    btf = btf__new(data, (uint32_t)size);
    if (!btf || libbpf_get_error(btf)) {
        return NULL;
    }
    b = g_new(struct linux_btf, 1);
    b->btf = btf;
    b->by_name = g_hash_table_new_full(btrail_str_hash, g_str_equal, NULL,
                                       (GDestroyNotify)g_array_unref);
    list_names(b);
    return b;
}

void linux_btf_free(struct linux_btf *b)
{
    if (b) {
        g_hash_table_destroy(b->by_name);
        btf__free(b->btf);
        g_free(b);
    }
}

/* Returns a type without its typedefs and qualifiers, NULL if none. */
static const struct btf_type *strip_type(const struct linux_btf *b, uint32_t id)
{
    unsigned depth;

    for (depth = 0; depth < DEPTH_MAX; depth++) {
        const struct btf_type *t = btf__type_by_id(b->btf, id);

        if (!t) {
            return NULL;
        }
        switch (btf_kind(t)) {
        case BTF_KIND_TYPEDEF:
        case BTF_KIND_CONST:
        case BTF_KIND_VOLATILE:
        case BTF_KIND_RESTRICT:
        case BTF_KIND_TYPE_TAG:
            id = t->type;
            break;
        default:
            return t;
        }
    }
    return NULL;
}

static uint64_t size_of(const struct linux_btf *b, uint32_t id)
{
    uint64_t times = 1;
    unsigned depth;

    for (depth = 0; depth < DEPTH_MAX; depth++) {
        const struct btf_type *t = strip_type(b, id);

        if (!t) {
            return 0;
        }
        switch (btf_kind(t)) {
        case BTF_KIND_PTR:
            return 8 * times;
        case BTF_KIND_INT:
        case BTF_KIND_STRUCT:
        case BTF_KIND_UNION:
        case BTF_KIND_ENUM:
        case BTF_KIND_ENUM64:
        case BTF_KIND_FLOAT:
            return t->size * times;
        case BTF_KIND_ARRAY:
            times *= btf_array(t)->nelems;
            if (times > UINT32_MAX) {
                return 0;
            }
            id = btf_array(t)->type;
            break;
        default:
            return 0;
        }
    }
    return 0;
}

/* Finds a member of a struct by its name, also in members without one. */
static bool find_member(const struct linux_btf *b, const struct btf_type *t,
                        const char *name, size_t length, unsigned depth,
                        unsigned *work, uint32_t *type, uint64_t *bits)
{
    const struct btf_member *m = btf_members(t);

    if (!btf_is_composite(t)) {
        return false;
    }
    for (unsigned i = 0; i < btf_vlen(t); i++) {
        const char *s = type_name(b, m[i].name_off);
        const struct btf_type *inner;

        if (++*work > WORK_MAX) {
            return false;
        }
        if (*s) {
            if (!strncmp(s, name, length) && !s[length]) {
                *type = m[i].type;
                *bits += btf_member_bit_offset(t, i);
                return !btf_member_bitfield_size(t, i);
            }
            continue;
        }
        inner = strip_type(b, m[i].type);
        if (inner && depth < DEPTH_MAX) {
            uint64_t at = *bits + btf_member_bit_offset(t, i);

            if (find_member(b, inner, name, length, depth + 1, work, type,
                            &at)) {
                *bits = at;
                return true;
            }
        }
    }
    return false;
}

static bool find_path(const struct linux_btf *b, const struct btf_type *t,
                      const char *path, uint32_t *offset, uint32_t *size)
{
    uint64_t bits = 0;
    uint32_t type = 0;
    unsigned work = 0;

    while (t) {
        size_t length = strcspn(path, ".");

        if (!find_member(b, t, path, length, 0, &work, &type, &bits) ||
            bits % 8 || bits / 8 > UINT32_MAX) {
            return false;
        }
        path += length;
        if (!*path) {
            uint64_t n = size_of(b, type);

            *offset = (uint32_t)(bits / 8);
            *size = n > UINT32_MAX ? 0 : (uint32_t)n;
            return true;
        }
        path++;
        t = strip_type(b, type);
    }
    return false;
}

/* Several structs can have a name: the first with this member counts. */
bool linux_btf_member(const struct linux_btf *b, const char *type,
                      const char *path, uint32_t *offset, uint32_t *size)
{
    const struct btf_type *t;

    for (uint32_t i = 0; (t = type_by_name(b, type, i)); i++) {
        if (btf_is_composite(t) && find_path(b, t, path, offset, size)) {
            return true;
        }
    }
    return false;
}

bool linux_btf_enumerator(const struct linux_btf *b, const char *type,
                          const char *name, int32_t *value)
{
    const struct btf_type *t;

    for (uint32_t i = 0; (t = type_by_name(b, type, i)); i++) {
        for (unsigned k = 0; btf_is_enum(t) && k < btf_vlen(t); k++) {
            if (!strcmp(type_name(b, btf_enum(t)[k].name_off), name)) {
                *value = btf_enum(t)[k].val;
                return true;
            }
        }
    }
    return false;
}
