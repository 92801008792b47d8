/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's memory with a small kernel in it, for tests and fuzzing
 *
 * Its structs have the members that are read, and no others, so its BTF is made
 * of the same list that a kernel's is read by.
 */

#ifndef FAKE_LINUX_H
#define FAKE_LINUX_H

#include "guest-linux/kernel.h"

#define FAKE_PAGES      26
#define FAKE_SIZE       (FAKE_PAGES * GUEST_PAGE_SIZE)
#define FAKE_NOTE       10              /* pages: VMCOREINFO, symbols, BTF */
#define FAKE_STRUCTS    18              /* and all else */
#define FAKE_STEXT      UINT64_C(0xffffffff81000000)
#define FAKE_STEXT_32   UINT64_C(0xc0000000)
#define FAKE_ROOT       0x4000u         /* of the process, and then KPTI's */
#define FAKE_USER       UINT64_C(0x400000)
#define FAKE_BANNER     "Linux version 6.0-fake (of@a.test) (a compiler of " \
                        "its own) #1 SMP a day (1970-01-01)\n"
#define FAKE_PID        100
#define FAKE_SYMBOLS    300
#define FAKE_NAMED      28              /* of them, that are looked for */
#define FAKE_SWITCH_TO  (FAKE_STEXT + 0x208)
#define FAKE_SET_NAME   (FAKE_STEXT + 0x218)
#define FAKE_WRITER     (FAKE_STEXT + 0x300)
#define FAKE_WAKE       (FAKE_STEXT + 0x1300)
#define FAKE_WAKE_NEW   (FAKE_STEXT + 0x1400)
#define FAKE_JUMPS      300             /* entries of the table of jumps; those */
#define FAKE_WAKING     255             /* of sched_waking: this, the next one */
#define FAKE_WAKING_NEW 280             /* of sched_wakeup_new */
#define FAKE_FILE       0x40000u        /* see fake_linux_file() */
#define FAKE_PCPU_HOT   UINT64_C(0x30000)  /* per-CPU data, as offsets */
#define FAKE_CURRENT    UINT64_C(0x31008)

#define FAKE_MODULE     UINT64_C(0xffffffffc0000000)
#define FAKE_MODULE_SYMBOLS 5
#define FAKE_BPF        UINT64_C(0xffffffffc0100000) /* and other code */

enum {
    FAKE_LIST = 1,              /* mappings in a list, not in a maple tree */
    FAKE_SEARCH = 2,            /* VMCOREINFO does not have kallsyms */
    FAKE_PTI = 4,
    /* Tables of symbols: up to 6.3 their offsets are first, with a sign; */
    FAKE_AFTER = 8,             /* from 6.4 on they are last, */
    FAKE_UNSIGNED = 16,         /* from 6.15 on without a sign, */
    FAKE_PLACE = 32,            /* from 7.0 on relative to their own place, */
    FAKE_ALIGN_4 = 64,          /* and from 7.2 on aligned to 4 bytes; members
                                   are of the least of their sizes then */
    FAKE_32 = 128,              /* of 32 bits, with symbols only, and without
                                   per-CPU ones at 0 */
    FAKE_PAE = 256,
    FAKE_SEQS = 512,            /* 6.1 to 6.3: the order of names, too */
    FAKE_FLAGS = 1024,          /* all flags are below */
};

/**
 * struct fake_linux
 * @memory:  physical memory from 0 on; it is mapped at @stext as well
 * @stext:   FAKE_STEXT, or FAKE_STEXT_32
 * @layout:  of its structs
 * @init:    address of init_task
 * @process: address of the task_struct of FAKE_PID, @thread: of its second one
 * @kthread: of pid 2
 * @mm:      of the process
 * @vmas:    its mappings: a file, the heap, the vDSO
 * @module:  the one that it has
 * @module_symbols: its symbols: load and stop of its code, data, and one that
 *           it uses
 * @bpf_list, @ftrace_list: heads of lists; @kprobes, @optprobes: structs that
 *           have such
 * @bpf:     what is in the first: bpf_prog_1 and bpf_prog_2, one after the other
 * @ftrace, @slots: in the next two; nothing is in the last
 * @file:    that is mapped, and is what the process runs
 * @mapping: address_space of the file
 * @syscalls: the table of four system calls
 * @jumps:   the table of jumps; @waking, @waking_new: tracepoints of tasks that
 *           are woken
 * @vmcoreinfo: vmcoreinfo_data, which leads to the note
 * @sorted:  static_key_initialized, which is true
 */
struct fake_linux {
    uint8_t *memory;
    uint64_t stext;
    struct linux_layout layout;
    uint64_t init;
    uint64_t process;
    uint64_t thread;
    uint64_t kthread;
    uint64_t mm;
    uint64_t vmas[3];
    uint64_t module;
    uint64_t module_symbols;
    uint64_t bpf_list;
    uint64_t ftrace_list;
    uint64_t kprobes;
    uint64_t optprobes;
    uint64_t bpf[2];
    uint64_t ftrace;
    uint64_t slots;
    uint64_t file;
    uint64_t mapping;
    uint64_t syscalls;
    uint64_t jumps;
    uint64_t waking;
    uint64_t waking_new;
    uint64_t vmcoreinfo;
    uint64_t sorted;
    uint64_t next;              /* where there is room */
};

void fake_linux_init(struct fake_linux *f, unsigned flags);
void fake_linux_clear(struct fake_linux *f);

/*
 * Has its memory be at this physical address instead of 0: it is mapped where
 * it was.
 */
#define FAKE_MOVED      UINT64_C(0x1000000)
void fake_linux_move(struct fake_linux *f);

/*
 * Has its memory be that of a nested guest: @bytes gets FAKE_NESTED_SIZE bytes
 * that are at FAKE_MOVED of the guest's RAM, with its pages in another order, and
 * then nested page tables, which have two roots.
 */
#define FAKE_NESTED_ROOT    (FAKE_MOVED + FAKE_SIZE)
#define FAKE_NESTED_OTHER   (FAKE_NESTED_ROOT + 4 * GUEST_PAGE_SIZE)
#define FAKE_NESTED_SIZE    (FAKE_SIZE + 5 * GUEST_PAGE_SIZE)
void fake_linux_nest(const struct fake_linux *f, uint8_t *bytes);

/* Where in @memory a linear address of the kernel is */
uint8_t *fake_linux_at(struct fake_linux *f, uint64_t address);
void fake_linux_put64(struct fake_linux *f, uint64_t address,
                      uint32_t offset, uint64_t value);
void fake_linux_put32(struct fake_linux *f, uint64_t address,
                      uint32_t offset, uint32_t value);

/* Have entry @i of the table of jumps be of this instruction and this key. */
void fake_linux_jump(struct fake_linux *f, unsigned i, uint64_t code,
                     uint64_t key);

/* Have the module have code there: of its initialisation if @which is 1 */
void fake_linux_area(struct fake_linux *f, unsigned which, uint64_t start,
                     uint32_t size);

/* Have a page of memory be one of a file; returns the address of its struct. */
uint64_t fake_linux_page(struct fake_linux *f, unsigned frame,
                         uint64_t mapping, uint64_t index);

/* A node for 2^shift pages in each entry, with none yet */
uint64_t fake_linux_node(struct fake_linux *f, uint8_t shift);

/*
 * Have the page cache of the file be this many pages from FAKE_FILE on, which
 * the caller must add to the memory: one folio.
 */
void fake_linux_file(struct fake_linux *f, unsigned pages);

/*
 * Has it be a kernel that has just begun to boot, or one that has written its
 * VMCOREINFO, and has processes, since.
 */
void fake_linux_boots(struct fake_linux *f, bool boots);

/* Find the kernel in it; NULL if it is not found. */
struct linux_kernel *fake_linux_find(const struct guest_memory *m);

/*
 * The same with a memory of its own, and with a kernel that must be found:
 * @f is initialised with @flags.  fake_linux_end() frees all three.
 */
struct linux_kernel *fake_linux_begin(struct fake_linux *f, unsigned flags,
                                      struct guest_memory **m);
void fake_linux_end(struct fake_linux *f, struct guest_memory *m,
                    struct linux_kernel *k);

#endif /* FAKE_LINUX_H */
