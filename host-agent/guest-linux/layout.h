/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where in the kernel's structs the members are that are read here
 */

#ifndef LINUX_LAYOUT_H
#define LINUX_LAYOUT_H

#include <glib.h>

#include "guest-linux/btf.h"

/* Offset of a member that this kernel does not have */
#define LINUX_NONE      UINT32_MAX

/* What is lost with a member */
#define LINUX_TASKS     NULL            /* nothing is known of tasks then */
#define LINUX_OTHER     ""              /* nothing: another has its place */
#define LINUX_VCPUS     "threads have no vCPU"
#define LINUX_SWITCHES  "switches of tasks are found late"
#define LINUX_STATES    "why tasks wait is unknown"
#define LINUX_WAKES     "who wakes tasks is unknown"
#define LINUX_CHANGES   "changes of processes are found late"
#define LINUX_MAPS      "mappings of processes are unknown"
#define LINUX_VDSO      "functions of the vDSO are unknown"
#define LINUX_NAMES     "names of anonymous mappings are unknown"
#define LINUX_FILES     "build-ids and functions of files are unknown"
#define LINUX_MODULES   "functions of modules are unknown"
#define LINUX_ENDS      "ends of some functions of modules are unknown"
#define LINUX_BPF       "BPF programs are unknown"
#define LINUX_FTRACE    "trampolines of ftrace are unknown"
#define LINUX_KPROBES   "slots of kprobes are unknown"

/*
 * member in struct linux_layout, struct, member, its size (the sum of those
 * that it can have, which are powers of 2; 0 if any), what is lost without it.
 */
#define LINUX_LAYOUT(X)                                                 \
    X(task_tasks, "task_struct", "tasks", 16, LINUX_TASKS)              \
    X(task_pid, "task_struct", "pid", 4, LINUX_TASKS)                   \
    X(task_tgid, "task_struct", "tgid", 4, LINUX_TASKS)                 \
    X(task_comm, "task_struct", "comm", 16, LINUX_TASKS)                \
    X(task_parent, "task_struct", "real_parent", 8, LINUX_TASKS)        \
    X(task_start_boot, "task_struct", "start_boottime", 8, LINUX_OTHER) \
    X(task_start, "task_struct", "real_start_time", 8, LINUX_OTHER)     \
    X(task_mm, "task_struct", "mm", 8, LINUX_TASKS)                     \
    X(task_active_mm, "task_struct", "active_mm", 8, LINUX_TASKS)       \
    X(task_signal, "task_struct", "signal", 8, LINUX_TASKS)             \
    X(task_node, "task_struct", "thread_node", 16, LINUX_TASKS)         \
    X(task_on_cpu, "task_struct", "on_cpu", 1 | 4, LINUX_VCPUS)         \
    X(task_cpu, "task_struct", "cpu", 4, LINUX_OTHER)                   \
    X(task_info_cpu, "task_struct", "thread_info.cpu", 4, LINUX_OTHER)  \
    X(task_flags, "task_struct", "flags", 4, LINUX_SWITCHES)            \
    X(task_state, "task_struct", "__state", 4, LINUX_OTHER)             \
    X(task_state_before, "task_struct", "state", 8, LINUX_OTHER)        \
    X(task_on_queue, "task_struct", "on_rq", 1 | 4, LINUX_STATES)       \
    X(task_delayed, "task_struct", "se.sched_delayed", 1, LINUX_OTHER)  \
    X(tracepoint_key, "tracepoint", "key", 0, LINUX_WAKES)              \
    X(pcpu_current, "pcpu_hot", "current_task", 8, LINUX_OTHER)         \
    X(signal_threads, "signal_struct", "thread_head", 16, LINUX_TASKS)  \
    X(signal_count, "signal_struct", "nr_threads", 4, LINUX_CHANGES)    \
    X(mm_pgd, "mm_struct", "pgd", 8, LINUX_TASKS)                       \
    X(mm_arg_start, "mm_struct", "arg_start", 8, LINUX_TASKS)           \
    X(mm_arg_end, "mm_struct", "arg_end", 8, LINUX_TASKS)               \
    X(mm_env_start, "mm_struct", "env_start", 8, LINUX_TASKS)           \
    X(mm_env_end, "mm_struct", "env_end", 8, LINUX_TASKS)               \
    X(mm_start_brk, "mm_struct", "start_brk", 8, LINUX_TASKS)           \
    X(mm_brk, "mm_struct", "brk", 8, LINUX_TASKS)                       \
    X(mm_start_stack, "mm_struct", "start_stack", 8, LINUX_TASKS)       \
    X(mm_exe_file, "mm_struct", "exe_file", 8, LINUX_TASKS)             \
    X(mm_map_count, "mm_struct", "map_count", 4, LINUX_CHANGES)         \
    X(mm_exec_vm, "mm_struct", "exec_vm", 8, LINUX_CHANGES)             \
    X(mm_vdso, "mm_struct", "context.vdso", 8, LINUX_VDSO)              \
    X(mm_vdso_image, "mm_struct", "context.vdso_image", 8, LINUX_VDSO)  \
    X(mm_mmap, "mm_struct", "mmap", 8, LINUX_OTHER)                     \
    X(mm_mt_root, "mm_struct", "mm_mt.ma_root", 8, LINUX_OTHER)         \
    X(vma_start, "vm_area_struct", "vm_start", 8, LINUX_TASKS)          \
    X(vma_end, "vm_area_struct", "vm_end", 8, LINUX_TASKS)              \
    X(vma_mm, "vm_area_struct", "vm_mm", 8, LINUX_TASKS)                \
    X(vma_flags, "vm_area_struct", "vm_flags", 8, LINUX_TASKS)          \
    X(vma_file, "vm_area_struct", "vm_file", 8, LINUX_TASKS)            \
    X(vma_pgoff, "vm_area_struct", "vm_pgoff", 8, LINUX_TASKS)          \
    X(vma_ops, "vm_area_struct", "vm_ops", 8, LINUX_TASKS)              \
    X(vma_private, "vm_area_struct", "vm_private_data", 8, LINUX_TASKS) \
    X(vma_next, "vm_area_struct", "vm_next", 8, LINUX_OTHER)            \
    X(vma_anon_name, "vm_area_struct", "anon_name", 8, LINUX_OTHER)     \
    X(anon_name, "anon_vma_name", "name", 0, LINUX_NAMES)               \
    X(special_name, "vm_special_mapping", "name", 8, LINUX_TASKS)       \
    X(vdso_data, "vdso_image", "data", 8, LINUX_VDSO)                   \
    X(vdso_size, "vdso_image", "size", 8, LINUX_VDSO)                   \
    X(range_parent, "maple_range_64", "parent", 8, LINUX_MAPS)          \
    X(range_pivot, "maple_range_64", "pivot", 0, LINUX_MAPS)            \
    X(range_slot, "maple_range_64", "slot", 0, LINUX_MAPS)              \
    X(arange_parent, "maple_arange_64", "parent", 8, LINUX_MAPS)        \
    X(arange_pivot, "maple_arange_64", "pivot", 0, LINUX_MAPS)          \
    X(arange_slot, "maple_arange_64", "slot", 0, LINUX_MAPS)            \
    X(file_mnt,        "file", "f_path.mnt",          8, LINUX_TASKS)   \
    X(file_dentry,     "file", "f_path.dentry",       8, LINUX_TASKS)   \
    X(file_mapping,    "file", "f_mapping",           8, LINUX_TASKS)   \
    X(dentry_parent,   "dentry", "d_parent",            8, LINUX_TASKS) \
    X(dentry_name,     "dentry", "d_name.name",         8, LINUX_TASKS) \
    X(dentry_length,   "dentry", "d_name.len",          4, LINUX_TASKS) \
    X(dentry_unhashed, "dentry", "d_hash.pprev",        8, LINUX_TASKS) \
    X(mount_mnt,       "mount", "mnt",                 0, LINUX_TASKS)  \
    X(mount_parent,    "mount", "mnt_parent",          8, LINUX_TASKS)  \
    X(mount_point,     "mount", "mnt_mountpoint",      8, LINUX_TASKS)  \
    X(vfsmount_root, "vfsmount", "mnt_root", 8, LINUX_TASKS)            \
    X(mapping_pages, "address_space", "i_pages.xa_head", 8, LINUX_FILES) \
    X(node_shift, "xa_node", "shift", 0, LINUX_FILES)                   \
    X(node_slots, "xa_node", "slots", 0, LINUX_FILES)                   \
    X(page_flags,      "page", "flags",               8, LINUX_FILES)   \
    X(page_mapping,    "page", "mapping",             8, LINUX_FILES)   \
    X(page_index,      "page", "index",               8, LINUX_OTHER)   \
    X(folio_index,     "folio", "index",               8, LINUX_OTHER)  \
    X(module_list, "module", "list", 16, LINUX_OTHER)                   \
    X(module_name, "module", "name", 0, LINUX_MODULES)                  \
    X(module_state, "module", "state", 4, LINUX_MODULES)                \
    X(module_kallsyms, "module", "kallsyms", 8, LINUX_MODULES)          \
    X(module_mem, "module", "mem", 0, LINUX_OTHER)                      \
    X(module_core, "module", "core_layout.base", 8, LINUX_OTHER)        \
    X(module_core_text, "module", "core_layout.text_size", 4, LINUX_OTHER) \
    X(module_init, "module", "init_layout.base", 8, LINUX_OTHER)        \
    X(module_init_text, "module", "init_layout.text_size", 4, LINUX_OTHER) \
    X(memory_base, "module_memory", "base", 8, LINUX_OTHER)             \
    X(memory_size, "module_memory", "size", 4, LINUX_OTHER)             \
    X(mod_symtab, "mod_kallsyms", "symtab", 8, LINUX_MODULES)           \
    X(mod_count, "mod_kallsyms", "num_symtab", 4, LINUX_MODULES)        \
    X(mod_strtab, "mod_kallsyms", "strtab", 8, LINUX_MODULES)           \
    X(mod_typetab, "mod_kallsyms", "typetab", 8, LINUX_MODULES)         \
    X(bpf_node, "bpf_ksym", "lnode", 16, LINUX_OTHER)                   \
    X(bpf_start, "bpf_ksym", "start", 8, LINUX_BPF)                     \
    X(bpf_end, "bpf_ksym", "end", 8, LINUX_BPF)                         \
    X(bpf_name, "bpf_ksym", "name", 0, LINUX_BPF)                       \
    X(ftrace_node, "ftrace_ops", "list", 16, LINUX_OTHER)               \
    X(ftrace_start, "ftrace_ops", "trampoline", 8, LINUX_FTRACE)        \
    X(ftrace_size, "ftrace_ops", "trampoline_size", 8, LINUX_FTRACE)    \
    X(slots_page_node, "kprobe_insn_page", "list", 16, LINUX_OTHER)     \
    X(slots_page_start, "kprobe_insn_page", "insns", 8, LINUX_KPROBES)  \
    X(slots_pages, "kprobe_insn_cache", "pages", 16, LINUX_KPROBES)

struct linux_layout {
#define X(name, type, path, size, lost) uint32_t name;
    LINUX_LAYOUT(X)
#undef X
    /* The sizes of those that can have several */
    struct {
#define X(name, type, path, size, lost) uint8_t name;
        LINUX_LAYOUT(X)
#undef X
    } size;
    /* Lengths of arrays */
    uint32_t range_slots;
    uint32_t arange_slots;
    uint32_t node_slots_n;
    uint32_t module_name_size;
    uint32_t bpf_name_size;
    /* struct module.mem: bytes of each, and which is what */
    uint32_t module_mem_each;
    int32_t module_mem_text;
    int32_t module_mem_init_text;
    /* enum maple_type */
    int32_t maple_leaf;
    int32_t maple_range;
    int32_t maple_arange;
    int32_t module_unformed;
    /* enum pageflags, or -1 */
    int32_t page_uptodate;
};

/* Of a kernel that does not have anything */
void linux_layout_clear(struct linux_layout *l);

/*
 * Adds what this kernel does not have, or in another size, and what is lost by
 * it to @missing, as texts to be freed.  Returns false if nothing is known of
 * tasks then; the layout is clear then.
 */
bool linux_layout_read(struct linux_layout *l, const struct linux_btf *b,
                       GPtrArray *missing);

#endif /* LINUX_LAYOUT_H */
