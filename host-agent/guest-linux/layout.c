/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Offsets of members: see layout.h
 */

#include <string.h>

#include "guest-linux/layout.h"

/* A struct is at most this large, which bounds what is read of one, too. */
#define STRUCT_MAX  (1u << 20)
#define SLOTS_MAX   64
#define MODULE_NAME_MAX 256
#define BPF_NAME_MAX    1024
#define AREAS_MAX       64

static const struct member {
    const char *type;
    const char *name;           /* with the struct's */
    const char *path;
    const char *lost;
    size_t at;
    size_t size_at;
    uint32_t sizes;
} members[] = {
#define X(name, type, path, sizes, lost)                                \
    { type, type "." path, path, lost, offsetof(struct linux_layout, name), \
      offsetof(struct linux_layout, size.name), sizes },
    LINUX_LAYOUT(X)
#undef X
};

/* Members of which a kernel has the first or the second, and what is lost */
static const struct {
    size_t first;
    size_t second;
    const char *names;
    const char *lost;
} others[] = {
#define OTHERS(first, second, names, lost) \
    { offsetof(struct linux_layout, first), \
      offsetof(struct linux_layout, second), names, lost }
    OTHERS(task_state, task_state_before, "task_struct.__state", LINUX_STATES),
    OTHERS(task_start_boot, task_start, "task_struct.start_boottime",
           LINUX_TASKS),
    OTHERS(mm_mt_root, mm_mmap, "mm_struct.mm_mt", LINUX_TASKS),
    OTHERS(mm_mt_root, vma_next, "mm_struct.mm_mt", LINUX_TASKS),
    OTHERS(task_cpu, task_info_cpu, "task_struct.thread_info.cpu",
           LINUX_VCPUS),
    OTHERS(folio_index, page_index, "folio.index", LINUX_FILES),
#undef OTHERS
};

static uint32_t slots(const struct linux_btf *b, const char *type,
                      const char *member)
{
    uint32_t offset, size;

    if (!linux_btf_member(b, type, member, &offset, &size) ||
        size / 8 > SLOTS_MAX) {
        return 0;
    }
    return size / 8;
}

static uint32_t *offset_at(struct linux_layout *l, size_t at)
{
    return (uint32_t *)((char *)l + at);
}

/* Would something be lost without it, or does the kernel have no use for it? */
static bool has_use(const struct linux_layout *l, const struct member *m)
{
    if (g_str_has_prefix(m->type, "maple_")) {
        return l->mm_mt_root != LINUX_NONE;
    }
    if (g_str_has_prefix(m->type, "mod")) {
        return l->module_list != LINUX_NONE;
    }
    if (!strcmp(m->type, "anon_vma_name")) {
        return l->vma_anon_name != LINUX_NONE;
    }
    if (!strcmp(m->type, "bpf_ksym")) {
        return l->bpf_node != LINUX_NONE;
    }
    if (!strcmp(m->type, "ftrace_ops")) {
        return l->ftrace_node != LINUX_NONE;
    }
    if (g_str_has_prefix(m->type, "kprobe_")) {
        return l->slots_page_node != LINUX_NONE;
    }
    return true;
}

/* "a.b is missing: what is lost"; @size is UINT32_MAX if it is missing. */
static void add_missing(GPtrArray *missing, const char *name, uint32_t size,
                        uint32_t sizes, const char *lost)
{
    GString *text = g_string_new(name);
    const char *word = ", not ";

    if (size == UINT32_MAX) {
        g_string_append(text, " is missing");
    } else {
        g_string_append_printf(text, " is %u bytes", size);
        for (uint32_t n = 1; n <= sizes; n *= 2) {
            if (sizes & n) {
                g_string_append_printf(text, "%s%u", word, n);
                word = " or ";
            }
        }
    }
    g_string_append_printf(text, ": %s", lost ? lost : "tasks are unknown");
    g_ptr_array_add(missing, g_string_free(text, FALSE));
}

static bool read_members(struct linux_layout *l, const struct linux_btf *b,
                         GPtrArray *missing)
{
    uint32_t sizes[G_N_ELEMENTS(members)];

    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        const struct member *m = &members[i];
        uint32_t *to = offset_at(l, m->at);
        uint32_t size;

        sizes[i] = UINT32_MAX;
        if (!linux_btf_member(b, m->type, m->path, to, &size) ||
            *to >= STRUCT_MAX) {
            *to = LINUX_NONE;
        } else if (m->sizes && (!(size & m->sizes) || size & (size - 1))) {
            *to = LINUX_NONE;
            sizes[i] = size;
        } else {
            *((uint8_t *)l + m->size_at) = (uint8_t)MIN(size, UINT8_MAX);
        }
        if (*to == LINUX_NONE && !m->lost) {
            add_missing(missing, m->name, sizes[i], m->sizes, NULL);
            return false;
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        const struct member *m = &members[i];

        if (*offset_at(l, m->at) == LINUX_NONE && *m->lost && has_use(l, m)) {
            add_missing(missing, m->name, sizes[i], m->sizes, m->lost);
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        if (*offset_at(l, others[i].first) == LINUX_NONE &&
            *offset_at(l, others[i].second) == LINUX_NONE) {
            add_missing(missing, others[i].names, UINT32_MAX, 0,
                        others[i].lost);
            if (!others[i].lost) {
                return false;
            }
        }
    }
    return true;
}

/* Where a module has its code: Linux 6.4 and later have an array for that. */
static bool read_module_memory(struct linux_layout *l,
                               const struct linux_btf *b)
{
    uint32_t offset, size;
    int32_t n;

    if (l->memory_base == LINUX_NONE || l->memory_size == LINUX_NONE ||
        !linux_btf_member(b, "module", "mem", &offset, &size) ||
        !linux_btf_enumerator(b, "mod_mem_type", "MOD_MEM_NUM_TYPES", &n) ||
        !linux_btf_enumerator(b, "mod_mem_type", "MOD_TEXT",
                              &l->module_mem_text) ||
        !linux_btf_enumerator(b, "mod_mem_type", "MOD_INIT_TEXT",
                              &l->module_mem_init_text) ||
        n <= 0 || n > AREAS_MAX || size > STRUCT_MAX ||
        l->module_mem_text < 0 || l->module_mem_text >= n ||
        l->module_mem_init_text < 0 || l->module_mem_init_text >= n) {
        l->module_mem = LINUX_NONE;
        return false;
    }
    l->module_mem_each = size / (uint32_t)n;
    return true;
}

/* What is not an offset; without some of it, offsets are of no use. */
static void read_values(struct linux_layout *l, const struct linux_btf *b,
                        GPtrArray *missing)
{
    uint32_t offset;

    l->range_slots = slots(b, "maple_range_64", "slot");
    l->arange_slots = slots(b, "maple_arange_64", "slot");
    l->node_slots_n = slots(b, "xa_node", "slots");
    if (!linux_btf_enumerator(b, "pageflags", "PG_uptodate",
                              &l->page_uptodate)) {
        l->page_uptodate = -1;
    }
    if (l->mm_mt_root != LINUX_NONE &&
        (!linux_btf_enumerator(b, "maple_type", "maple_leaf_64",
                               &l->maple_leaf) ||
         !linux_btf_enumerator(b, "maple_type", "maple_range_64",
                               &l->maple_range) ||
         !linux_btf_enumerator(b, "maple_type", "maple_arange_64",
                               &l->maple_arange))) {
        l->mm_mt_root = LINUX_NONE;
        add_missing(missing, "enum maple_type", UINT32_MAX, 0, LINUX_MAPS);
    }
    if (!linux_btf_member(b, "module", "name", &offset,
                          &l->module_name_size)) {
        l->module_list = LINUX_NONE;
    } else if (l->module_name_size > MODULE_NAME_MAX) {
        l->module_list = LINUX_NONE;
        add_missing(missing, "module.name", l->module_name_size,
                    MODULE_NAME_MAX, LINUX_MODULES);
    }
    if (l->module_list != LINUX_NONE &&
        !linux_btf_enumerator(b, "module_state", "MODULE_STATE_UNFORMED",
                              &l->module_unformed)) {
        l->module_list = LINUX_NONE;
        add_missing(missing, "MODULE_STATE_UNFORMED", UINT32_MAX, 0,
                    LINUX_MODULES);
    }
    if (!read_module_memory(l, b) && l->module_list != LINUX_NONE &&
        (l->module_core == LINUX_NONE || l->module_core_text == LINUX_NONE)) {
        add_missing(missing, "module.mem", UINT32_MAX, 0, LINUX_ENDS);
    }
    if (l->bpf_node != LINUX_NONE && l->bpf_name != LINUX_NONE &&
        (!linux_btf_member(b, "bpf_ksym", "name", &offset,
                           &l->bpf_name_size) ||
         l->bpf_name_size > BPF_NAME_MAX)) {
        l->bpf_node = LINUX_NONE;
        add_missing(missing, "bpf_ksym.name", l->bpf_name_size, BPF_NAME_MAX,
                    LINUX_BPF);
    }
}

void linux_layout_clear(struct linux_layout *l)
{
    memset(l, 0, sizeof(*l));
    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        *offset_at(l, members[i].at) = LINUX_NONE;
    }
    l->page_uptodate = -1;
}

bool linux_layout_read(struct linux_layout *l, const struct linux_btf *b,
                       GPtrArray *missing)
{
    linux_layout_clear(l);
    if (!read_members(l, b, missing)) {
        linux_layout_clear(l);
        return false;
    }
    read_values(l, b, missing);
    return true;
}
