/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest of several vCPUs in a replay, with the gdbstub of its QEMU, as a test
 * plays both
 *
 * Its vCPUs execute instructions in turns.  Some have interrupts before them,
 * which are no instructions; a replay that comes from elsewhere stops before
 * these, and one that is there stays after those that it has passed.
 */

#ifndef BTRAIL_VM_SIDE_H
#define BTRAIL_VM_SIDE_H

#include "gdb/vm.h"

#define VM_SIDE_VCPUS   3
#define VM_SIDE_END     600

/*
 * @turns:   the vCPU of each instruction
 * @passed:  of the interrupts before the next instruction
 * @wrote:   a pc that was written, of each vCPU, or 0
 * @pcs:     of each vCPU, as QEMU would say
 * @odd:     how it answers requests that begin so: text -> text
 * @asked:   requests, each with a space before it
 * @busy:    runs end by an interrupt only
 * @fails:   moves fail
 */
struct vm_side {
    GMutex lock;
    GThread *thread;
    int sock;
    unsigned vcpus;
    uint8_t turns[VM_SIDE_END];
    struct turns *of_log;
    uint64_t icount;
    unsigned passed;
    uint64_t wrote[VCPU_COUNT_MAX];
    unsigned selected;
    GHashTable *breakpoints;
    GHashTable *odd;
    GString *asked;
    bool busy;
    bool fails;
    bool stops;                 /* what takes long shall end */
    unsigned gos;
    unsigned diverts;
    bool diverted;
};

/* Begins, with so many vCPUs; ends. */
void vm_side_begin(struct vm_side *side, unsigned vcpus);
void vm_side_end(struct vm_side *side);

/* The guest as it is debugged, and how it is moved */
struct vm *vm_side_vm(struct vm_side *side, GError **error);
struct vm_moves vm_side_moves(struct vm_side *side);

/* Has it answer requests that begin so with something else. */
void vm_side_answer(struct vm_side *side, const char *begin,
                    const char *answer);

/* Where a vCPU is */
uint64_t vm_side_pc(const struct vm_side *side, unsigned vcpu);

/* Interrupts before an instruction */
unsigned vm_side_interrupts(uint64_t icount);

#endif /* BTRAIL_VM_SIDE_H */
