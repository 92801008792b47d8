/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where in the kernel's structs the members are that are read here
 */

#ifndef LINUX_LAYOUT_H
#define LINUX_LAYOUT_H

#include "guest-linux/btf.h"

/* Offset of a member that this kernel does not have */
#define LINUX_NONE      UINT32_MAX

/*
 * member in struct linux_layout, struct, member, its size, needed: names that
 * a kernel has in one version and not in another are not needed.
 */
#define LINUX_LAYOUT(X)                                                 \
    X(task_tasks,       "task_struct", "tasks",             16, true)   \
    X(task_pid,         "task_struct", "pid",               4,  true)   \
    X(task_tgid,        "task_struct", "tgid",              4,  true)   \
    X(task_comm,        "task_struct", "comm",              16, true)   \
    X(task_parent,      "task_struct", "real_parent",       8,  true)   \
    X(task_start_boot,  "task_struct", "start_boottime",    8,  false)  \
    X(task_start,       "task_struct", "real_start_time",   8,  false)  \
    X(task_mm,          "task_struct", "mm",                8,  true)   \
    X(task_active_mm,   "task_struct", "active_mm",         8,  true)   \
    X(task_signal,      "task_struct", "signal",            8,  true)   \
    X(task_node,        "task_struct", "thread_node",       16, true)   \
    X(task_on_cpu,      "task_struct", "on_cpu",            4,  false)  \
    X(task_cpu,         "task_struct", "cpu",               4,  false)  \
    X(task_info_cpu,    "task_struct", "thread_info.cpu",   4,  false)  \
    X(task_flags,       "task_struct", "flags",             4,  false)  \
    X(pcpu_current,     "pcpu_hot", "current_task",         8,  false)  \
    X(signal_threads,   "signal_struct", "thread_head",     16, true)   \
    X(signal_count,     "signal_struct", "nr_threads",      4,  false)  \
    X(mm_pgd,           "mm_struct", "pgd",                 8,  true)   \
    X(mm_arg_start,     "mm_struct", "arg_start",           8,  true)   \
    X(mm_arg_end,       "mm_struct", "arg_end",             8,  true)   \
    X(mm_env_start,     "mm_struct", "env_start",           8,  true)   \
    X(mm_env_end,       "mm_struct", "env_end",             8,  true)   \
    X(mm_start_brk,     "mm_struct", "start_brk",           8,  true)   \
    X(mm_brk,           "mm_struct", "brk",                 8,  true)   \
    X(mm_start_stack,   "mm_struct", "start_stack",         8,  true)   \
    X(mm_exe_file,      "mm_struct", "exe_file",            8,  true)   \
    X(mm_map_count,     "mm_struct", "map_count",           4,  false)  \
    X(mm_exec_vm,       "mm_struct", "exec_vm",             8,  false)  \
    X(mm_vdso,          "mm_struct", "context.vdso",        8,  false)  \
    X(mm_vdso_image,    "mm_struct", "context.vdso_image",  8,  false)  \
    X(mm_mmap,          "mm_struct", "mmap",                8,  false)  \
    X(mm_mt_root,       "mm_struct", "mm_mt.ma_root",       8,  false)  \
    X(vma_start,        "vm_area_struct", "vm_start",       8,  true)   \
    X(vma_end,          "vm_area_struct", "vm_end",         8,  true)   \
    X(vma_mm,           "vm_area_struct", "vm_mm",          8,  true)   \
    X(vma_flags,        "vm_area_struct", "vm_flags",       8,  true)   \
    X(vma_file,         "vm_area_struct", "vm_file",        8,  true)   \
    X(vma_pgoff,        "vm_area_struct", "vm_pgoff",       8,  true)   \
    X(vma_ops,          "vm_area_struct", "vm_ops",         8,  true)   \
    X(vma_private,      "vm_area_struct", "vm_private_data", 8, true)   \
    X(vma_next,         "vm_area_struct", "vm_next",        8,  false)  \
    X(vma_anon_name,    "vm_area_struct", "anon_name",      8,  false)  \
    X(anon_name,        "anon_vma_name", "name",            0,  false)  \
    X(special_name,     "vm_special_mapping", "name",       8,  true)   \
    X(vdso_data,        "vdso_image", "data",               8,  false)  \
    X(vdso_size,        "vdso_image", "size",               8,  false)  \
    X(range_parent,     "maple_range_64", "parent",         8,  false)  \
    X(range_pivot,      "maple_range_64", "pivot",          0,  false)  \
    X(range_slot,       "maple_range_64", "slot",           0,  false)  \
    X(arange_parent,    "maple_arange_64", "parent",        8,  false)  \
    X(arange_pivot,     "maple_arange_64", "pivot",         0,  false)  \
    X(arange_slot,      "maple_arange_64", "slot",          0,  false)  \
    X(file_mnt,         "file", "f_path.mnt",               8,  true)   \
    X(file_dentry,      "file", "f_path.dentry",            8,  true)   \
    X(file_mapping,     "file", "f_mapping",                8,  true)   \
    X(dentry_parent,    "dentry", "d_parent",               8,  true)   \
    X(dentry_name,      "dentry", "d_name.name",            8,  true)   \
    X(dentry_length,    "dentry", "d_name.len",             4,  true)   \
    X(dentry_unhashed,  "dentry", "d_hash.pprev",           8,  true)   \
    X(mount_mnt,        "mount", "mnt",                     0,  true)   \
    X(mount_parent,     "mount", "mnt_parent",              8,  true)   \
    X(mount_point,      "mount", "mnt_mountpoint",          8,  true)   \
    X(vfsmount_root,    "vfsmount", "mnt_root",             8,  true)   \
    X(mapping_pages,    "address_space", "i_pages.xa_head", 8,  false)  \
    X(node_shift,       "xa_node", "shift",                 0,  false)  \
    X(node_slots,       "xa_node", "slots",                 0,  false)  \
    X(page_flags,       "page", "flags",                    8,  false)  \
    X(page_mapping,     "page", "mapping",                  8,  false)  \
    X(page_index,       "page", "index",                    8,  false)  \
    X(folio_index,      "folio", "index",                   8,  false)  \
    X(module_list,      "module", "list",                   16, false)  \
    X(module_name,      "module", "name",                   0,  false)  \
    X(module_state,     "module", "state",                  4,  false)  \
    X(module_kallsyms,  "module", "kallsyms",               8,  false)  \
    X(mod_symtab,       "mod_kallsyms", "symtab",           8,  false)  \
    X(mod_count,        "mod_kallsyms", "num_symtab",       4,  false)  \
    X(mod_strtab,       "mod_kallsyms", "strtab",           8,  false)  \
    X(mod_typetab,      "mod_kallsyms", "typetab",          8,  false)

struct linux_layout {
#define X(name, type, path, size, needed) uint32_t name;
    LINUX_LAYOUT(X)
#undef X
    /* Lengths of arrays */
    uint32_t range_slots;
    uint32_t arange_slots;
    uint32_t node_slots_n;
    uint32_t module_name_size;
    /* enum maple_type */
    int32_t maple_leaf;
    int32_t maple_range;
    int32_t maple_arange;
    int32_t module_unformed;
    /* enum pageflags, or -1 */
    int32_t page_uptodate;
};

/* Returns false, and what is missing in @what, if the kernel is different. */
bool linux_layout_read(struct linux_layout *l, const struct linux_btf *b,
                       const char **what);

#endif /* LINUX_LAYOUT_H */
