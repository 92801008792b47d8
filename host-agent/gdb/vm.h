/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that is debugged: QEMU's gdbstub, and a replay that can go to any
 * instruction
 */

#ifndef BTRAIL_GDB_VM_H
#define BTRAIL_GDB_VM_H

#include "find/place.h"
#include "gdb/stub.h"
#include "replay/turns.h"
#include "replay/vcpu-count.h"

/* The most bytes of a request, as QEMU has it */
#define VM_PACKET_SIZE  4096

/**
 * struct vm_moves - how to move the replay
 * @go:     go to an instruction, forwards or backwards
 * @icount: how many instructions the guest has executed
 * @checkpoints: describe the states that are kept to go back to, in lines; may
 *          be NULL
 * @halt:   stop the guest, whatever QEMU is about to do with it.  Gets the kept
 *          states nearest to where it is: the one at or before it, or 0, and
 *          the one after it, or UINT64_MAX
 * @divert: let a vCPU execute alone what was not recorded, until @go: it stops
 *          for a debugger, or by GDB's SIGSTOP where a replay can do no more.
 *          NULL: that cannot be
 * @output: where the guest has written a place's text, of kind
 *          FIND_PLACE_OUTPUT; in a process apart, too.  NULL: it is not known
 * @goes_on: shall what takes long continue?  Asked each few milliseconds; if
 *          not, it fails with AGENT_ERROR_CANCELLED, here and in @go.  NULL:
 *          always
 * @turns:  of the recording's vCPUs, which must live as long; NULL if it has
 *          one
 *
 * But for @output, they are called while the guest is stopped, or is to be.
 */
struct vm_moves {
    bool (*go)(void *opaque, uint64_t icount, GError **error);
    bool (*icount)(void *opaque, uint64_t *icount, GError **error);
    char *(*checkpoints)(void *opaque, GError **error);
    bool (*halt)(void *opaque, uint64_t *begin, uint64_t *end,
                 GError **error);
    bool (*divert)(void *opaque, unsigned vcpu, GError **error);
    bool (*output)(void *opaque, const struct find_place *place,
                   uint64_t *icount, GError **error);
    bool (*goes_on)(void *opaque);
    void *opaque;
    const struct turns *turns;
};

/**
 * struct vm_place - where the guest is
 * @icount: instructions that it has executed
 * @vcpu:   that executes the next one
 * @pc:     the next one.  An interrupt is not an instruction, so that one
 *          @icount can have two places: before it and after it
 * @pcs:    of each vCPU
 */
struct vm_place {
    uint64_t icount;
    unsigned vcpu;
    uint64_t pc;
    uint64_t pcs[VCPU_COUNT_MAX];
};

struct vm;

/**
 * vm_new - debug a guest that is stopped
 * @sock:  connected to QEMU's gdbstub; taken
 * @moves: copied
 */
struct vm *vm_new(int sock, const struct vm_moves *moves,
                  GError **error);
void vm_free(struct vm *vm);

struct stub *vm_stub(struct vm *vm);

/* What QEMU's gdbstub can do, as it says */
const char *vm_features(const struct vm *vm);

/*
 * How many vCPUs the guest has; to the gdbstub, the thread of one is its number
 * and 1 more.
 */
unsigned vm_vcpus(const struct vm *vm);

const struct turns *vm_turns(const struct vm *vm);

/* Where the guest is */
const struct vm_place *vm_place(const struct vm *vm);

/* Reads where it is, after it has moved. */
bool vm_find(struct vm *vm, GError **error);

/**
 * vm_go - go to a place
 *
 * What a debugger has written is lost, and no breakpoint is inserted then.
 */
bool vm_go(struct vm *vm, const struct vm_place *place,
           GError **error);

/* The same without a pc: vm_place() has it then. */
bool vm_go_icount(struct vm *vm, uint64_t icount, GError **error);

/* The same with the pc of one vCPU */
bool vm_go_vcpu(struct vm *vm, uint64_t icount, unsigned vcpu,
                uint64_t pc, GError **error);

/*
 * Has a debugger changed the guest, where it is?  @vcpu, if not NULL, gets the
 * one whose registers it has changed last, or else the one that is next
 */
bool vm_written(const struct vm *vm, unsigned *vcpu);

/*
 * From here until it goes somewhere, a vCPU executes what was not recorded;
 * vm_place() is where it has begun.
 */
bool vm_divert(struct vm *vm, unsigned vcpu, GError **error);
bool vm_diverted(const struct vm *vm);

/* The text of vm_moves.checkpoints */
char *vm_checkpoints(const struct vm *vm, GError **error);

/* vm_moves.output */
bool vm_output(const struct vm *vm, const struct find_place *place,
               uint64_t *icount, GError **error);

/* vm_moves.goes_on */
bool vm_goes_on(const struct vm *vm);

/**
 * vm_leave_search - after QEMU's own way back ("bc") was interrupted
 * @end: where the way began, from where it can continue; lowered to the place
 *       from which on QEMU has found nothing
 *
 * QEMU would stop at no more breakpoints.  The guest is elsewhere then.
 */
bool vm_leave_search(struct vm *vm, uint64_t *end, GError **error);

/* Lets a vCPU execute one instruction; others run until it is its turn. */
bool vm_step(struct vm *vm, unsigned vcpu, GError **error);

/**
 * vm_step_watched() - execute one instruction of the vCPU whose turn it is,
 * with breakpoints that are wanted
 * @hit: the watchpoint that the instruction met, as in an answer that says so;
 *       NULL if none
 */
bool vm_step_watched(struct vm *vm, GHashTable *breakpoints,
                     char **hit, GError **error);

/*
 * The watchpoint that was met, as an answer of QEMU's says, to be freed; NULL
 * if none
 */
char *vm_watchpoint(const char *said);

/*
 * A request for 64 bits of a vCPU, such as the register with a number of the
 * target description of x86-64.  Returns the answer, to be freed; @known: is it
 * a number?
 */
#define VM_READ_PC      "p10"
#define VM_READ_STACK   "p7"
char *vm_number(struct vm *vm, unsigned vcpu, const char *request,
                uint64_t *number, bool *known, GError **error);

/* A request about a vCPU that does not let it run, see stub_forward() */
char *vm_forward(struct vm *vm, unsigned vcpu, const char *request,
                 size_t length, size_t *n, GError **error);

/*
 * Inserts a breakpoint, or removes it if @conditions is NULL, as in
 * breakpoints.h.  Returns the answer for gdb, to be freed.
 */
char *vm_breakpoint(struct vm *vm, const char *key,
                    const char *conditions, GError **error);

/* Makes those inserted that are wanted, and no others. */
bool vm_set_breakpoints(struct vm *vm, GHashTable *want,
                        GError **error);

/*
 * Is there a breakpoint where a vCPU is, a condition of which holds if it
 * has any?  Those that cannot be evaluated do: gdb evaluates them again.
 */
bool vm_at_breakpoint(struct vm *vm, unsigned vcpu,
                      GHashTable *breakpoints);

#endif /* BTRAIL_GDB_VM_H */
