/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory mappings of a process: see mappings.h
 */

#include <string.h>

#include "guest-linux/maple.h"
#include "guest-linux/mappings.h"
#include "guest-linux/page-cache.h"
#include "guest-linux/path.h"
#include "util/hash.h"

#define VDSO_MAX        (1u << 20)
#define VMA_MAX         512             /* bytes of it that are read */

/* From include/linux/mm.h: BTF does not have macros. */
#define VM_READ         1u
#define VM_WRITE        2u
#define VM_EXEC         4u
#define VM_MAYSHARE     128u

struct path_key {
    uint64_t mnt;
    uint64_t dentry;
};

struct known_path {
    const char *path;
    bool deleted;
};

void linux_files_init(struct linux_files *f)
{
    f->strings = g_string_chunk_new(4096);
    f->paths = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, g_free);
    f->mapped = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                      g_free);
}

void linux_files_clear(struct linux_files *f)
{
    g_hash_table_destroy(f->paths);
    g_hash_table_destroy(f->mapped);
    g_string_chunk_free(f->strings);
}

const char *linux_files_path(struct linux_files *f, struct linux_kernel *k,
                             uint64_t file, bool *deleted)
{
    struct path_key key;
    struct known_path *known;
    char path[LINUX_PATH_MAX];

    if (!linux_u64(k, file, k->layout.file_mnt, &key.mnt) ||
        !linux_u64(k, file, k->layout.file_dentry, &key.dentry)) {
        return NULL;
    }
    known = g_hash_table_lookup(f->paths, &key);
    if (!known) {
        bool gone;

        if (!linux_path(k, file, path, &gone)) {
            return NULL;
        }
        known = g_new(struct known_path, 1);
        known->path = g_string_chunk_insert_const(f->strings, path);
        known->deleted = gone;
        g_hash_table_insert(f->paths, g_memdup2(&key, sizeof(key)), known);
    }
    *deleted = known->deleted;
    return known->path;
}

struct mappings_reader {
    uint64_t mm;
    struct linux_files *f;
    GArray *out;
    uint64_t end;               /* of the mapping before */
    uint64_t brk, start_brk, start_stack;
    uint32_t from, size;        /* what is read of a vm_area_struct */
};

static uint64_t vma_member(const struct mappings_reader *w, const uint8_t *vma,
                           uint32_t offset)
{
    uint64_t v;

    memcpy(&v, vma + offset - w->from, sizeof(v));
    return GUINT64_FROM_LE(v);
}

/* Returns what is known of a file; NULL if its first page is not there. */
static struct linux_mapped_file *get_mapped(struct linux_files *f,
                                            struct linux_kernel *k,
                                            uint64_t mapping)
{
    struct linux_mapped_file *known = g_hash_table_lookup(f->mapped, &mapping);
    struct linux_file file = { .k = k, .mapping = mapping, .budget = 1 };
    uint8_t page[GUEST_PAGE_SIZE];

    if (!known && linux_file_read(&file, 0, page, sizeof(page))) {
        known = g_new0(struct linux_mapped_file, 1);
        known->mapping = mapping;
        known->build_id_size = (uint32_t)build_id_find(page, sizeof(page),
                                                       known->build_id);
        g_hash_table_insert(f->mapped, &known->mapping, known);
    }
    return known;
}

static const char *special_name(struct linux_kernel *k,
                                struct mappings_reader *w,
                                const uint8_t *vma)
{
    uint64_t special, name;
    char text[64];

    special = vma_member(w, vma, k->layout.vma_private);
    if (!linux_u64(k, special, k->layout.special_name, &name) ||
        !linux_string(k, name, text, sizeof(text))) {
        return "";
    }
    return g_string_chunk_insert_const(w->f->strings, text);
}

static const char *anon_name(struct linux_kernel *k, struct mappings_reader *w,
                             uint64_t vma)
{
    uint64_t name;
    char text[96] = "[anon:";
    size_t n = strlen(text);

    if (k->layout.anon_name == LINUX_NONE ||
        !linux_u64(k, vma, k->layout.vma_anon_name, &name) ||
        !linux_pointer(name) ||
        !linux_string(k, name + k->layout.anon_name, text + n,
                      sizeof(text) - n - 1)) {
        return "";
    }
    strcat(text, "]");
    return g_string_chunk_insert_const(w->f->strings, text);
}

static bool add_vma(struct linux_kernel *k, uint64_t address, void *opaque)
{
    const struct linux_layout *l = &k->layout;
    struct mappings_reader *w = opaque;
    uint8_t vma[VMA_MAX];
    struct btrail_mapping m = { 0 };
    uint64_t flags, file;

    if (!linux_pointer(address) ||
        !page_walk_read(&k->walk, address + w->from, vma, w->size) ||
        vma_member(w, vma, l->vma_mm) != w->mm) {
        return false;
    }
    m.start = vma_member(w, vma, l->vma_start);
    m.end = vma_member(w, vma, l->vma_end);
    if (m.start < w->end || m.end <= m.start || m.end >> 63 ||
        (m.start | m.end) % GUEST_PAGE_SIZE ||
        w->out->len == LINUX_MAPPINGS_MAX) {
        return false;
    }
    flags = vma_member(w, vma, l->vma_flags);
    m.flags = (flags & VM_READ ? BTRAIL_MAPPING_READ : 0) |
              (flags & VM_WRITE ? BTRAIL_MAPPING_WRITE : 0) |
              (flags & VM_EXEC ? BTRAIL_MAPPING_EXEC : 0) |
              (flags & VM_MAYSHARE ? BTRAIL_MAPPING_SHARED : 0);
    m.path = "";
    file = vma_member(w, vma, l->vma_file);
    if (file) {
        struct linux_mapped_file *mapped;
        uint64_t mapping;
        bool deleted = false;

        m.flags |= BTRAIL_MAPPING_FILE;
        m.offset = vma_member(w, vma, l->vma_pgoff) * GUEST_PAGE_SIZE;
        if (!linux_pointer(file) ||
            !linux_u64(k, file, l->file_mapping, &mapping)) {
            return false;
        }
        m.path = linux_files_path(w->f, k, file, &deleted);
        if (!m.path) {
            return false;
        }
        m.flags |= deleted ? BTRAIL_MAPPING_DELETED : 0;
        mapped = get_mapped(w->f, k, mapping);
        if (mapped && mapped->build_id_size) {
            m.build_id = mapped->build_id;
            m.build_id_size = mapped->build_id_size;
            mapped->executed |= flags & VM_EXEC;
        }
    } else if (k->special_ops &&
               vma_member(w, vma, l->vma_ops) == k->special_ops) {
        m.path = special_name(k, w, vma);
    } else if (m.start < w->brk && m.end > w->start_brk) {
        m.path = "[heap]";
    } else if (m.start <= w->start_stack && m.end >= w->start_stack) {
        m.path = "[stack]";
    } else if (l->vma_anon_name != LINUX_NONE) {
        m.path = anon_name(k, w, address);
    }
    w->end = m.end;
    g_array_append_val(w->out, m);
    return true;
}

static bool each_in_list(struct linux_kernel *k, uint64_t vma,
                         struct mappings_reader *w)
{
    /* add_vma() insists that addresses ascend, so this ends. */
    while (vma) {
        if (!add_vma(k, vma, w) ||
            !linux_u64(k, vma, k->layout.vma_next, &vma)) {
            return false;
        }
    }
    return true;
}

bool linux_mappings(struct linux_kernel *k, uint64_t mm,
                    struct linux_files *f, GArray *out)
{
    const struct linux_layout *l = &k->layout;
    struct mappings_reader w = { mm, f, out };
    uint32_t members[] = {
        l->vma_start, l->vma_end, l->vma_mm, l->vma_flags, l->vma_file,
        l->vma_pgoff, l->vma_ops, l->vma_private,
    };
    uint64_t root;

    w.from = UINT32_MAX;
    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        w.from = MIN(w.from, members[i]);
        w.size = MAX(w.size, members[i] + 8);
    }
    w.size -= w.from;
    if (w.size > VMA_MAX ||
        !linux_u64(k, mm, l->mm_brk, &w.brk) ||
        !linux_u64(k, mm, l->mm_start_brk, &w.start_brk) ||
        !linux_u64(k, mm, l->mm_start_stack, &w.start_stack)) {
        return false;
    }
    if (l->mm_mt_root != LINUX_NONE) {
        return linux_u64(k, mm, l->mm_mt_root, &root) &&
               linux_maple_each(k, root, add_vma, &w);
    }
    return linux_u64(k, mm, l->mm_mmap, &root) && each_in_list(k, root, &w);
}

bool linux_vdso(struct linux_kernel *k, uint64_t mm, uint8_t **data,
                size_t *size)
{
    const struct linux_layout *l = &k->layout;
    uint64_t image, from, n;

    if (l->vdso_data == LINUX_NONE || l->vdso_size == LINUX_NONE ||
        !linux_u64(k, mm, l->mm_vdso_image, &image) ||
        !linux_pointer(image) ||
        !linux_u64(k, image, l->vdso_data, &from) || !(from >> 63) ||
        !linux_u64(k, image, l->vdso_size, &n) || !n || n > VDSO_MAX) {
        return false;
    }
    *data = g_malloc(n);
    *size = n;
    if (!page_walk_read(&k->walk, from, *data, n)) {
        g_free(*data);
        return false;
    }
    return true;
}
