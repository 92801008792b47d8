/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that is debugged: QEMU's gdbstub, and a replay that can go to any
 * instruction
 */

#ifndef BTRAIL_GDB_TARGET_H
#define BTRAIL_GDB_TARGET_H

#include "gdb/stub.h"
#include "replay/turns.h"
#include "replay/vcpu-count.h"

/* The most bytes of a request, as QEMU has it */
#define TARGET_PACKET_SIZE  4096

/**
 * struct target_moves - how to move the replay
 * @go:     go to an instruction, forwards or backwards
 * @icount: how many instructions the guest has executed
 * @checkpoints: describe the states that are kept to go back to, in lines; may
 *          be NULL
 * @halt:   stop the guest, whatever QEMU is about to do with it.  The states
 *          that are kept which are nearest to where it stands: at or before
 *          that, 0 if there is none, and after it, UINT64_MAX if there is none
 * @goes_on: is what takes long to go on?  Asked each few milliseconds; what
 *          does not fails with BTRAIL_AGENT_ERROR_CANCELLED, here and in @go.
 *          NULL: it is
 * @turns:  of the recording's vCPUs, which must live as long; NULL if it has
 *          one
 *
 * They are called while the guest stands, or is to.
 */
struct target_moves {
    bool (*go)(void *opaque, uint64_t icount, GError **error);
    bool (*icount)(void *opaque, uint64_t *icount, GError **error);
    char *(*checkpoints)(void *opaque, GError **error);
    bool (*halt)(void *opaque, uint64_t *begin, uint64_t *end,
                 GError **error);
    bool (*goes_on)(void *opaque);
    void *opaque;
    const struct turns *turns;
};

/**
 * struct target_place - where the guest stands
 * @icount: instructions that it has executed
 * @vcpu:   that executes the next one
 * @pc:     the next one.  An interrupt is not an instruction, so that one
 *          @icount can have two places: before it and after it
 * @pcs:    of each vCPU
 */
struct target_place {
    uint64_t icount;
    unsigned vcpu;
    uint64_t pc;
    uint64_t pcs[VCPU_COUNT_MAX];
};

struct target;

/**
 * target_new - debug a guest that stands
 * @sock:  connected to QEMU's gdbstub; taken
 * @moves: copied
 */
struct target *target_new(int sock, const struct target_moves *moves,
                          GError **error);
void target_free(struct target *t);

struct stub *target_stub(struct target *t);

/* What QEMU's gdbstub can do, as it says */
const char *target_features(const struct target *t);

/* How many vCPUs the guest has, and the thread that the gdbstub has for one */
unsigned target_vcpus(const struct target *t);
const char *target_thread(const struct target *t, unsigned vcpu);

/* The vCPU of a thread as gdb names it, with or without what follows; false if
 * there is none */
bool target_vcpu(const struct target *t, const char *thread, unsigned *vcpu);

const struct turns *target_turns(const struct target *t);

/* Where the guest stands */
const struct target_place *target_place(const struct target *t);

/* Reads where it stands, after it has moved. */
bool target_find(struct target *t, GError **error);

/**
 * target_go - go to a place
 *
 * What a debugger has written is lost, and no breakpoint is inserted then.
 */
bool target_go(struct target *t, const struct target_place *place,
               GError **error);

/* The same without a pc: target_place() has it then. */
bool target_go_icount(struct target *t, uint64_t icount, GError **error);

/* The same with the pc of one vCPU */
bool target_go_vcpu(struct target *t, uint64_t icount, unsigned vcpu,
                    uint64_t pc, GError **error);

/* The text of target_moves.checkpoints */
char *target_checkpoints(const struct target *t, GError **error);

/* target_moves.goes_on */
bool target_goes_on(const struct target *t);

/**
 * target_leave_search - after QEMU's own way back ("bc") was interrupted
 * @end: where the way began, whence it can go on; lowered to where QEMU has
 *       found nothing from there on
 *
 * QEMU would stop at no more breakpoints.  The guest stands elsewhere then.
 */
bool target_leave_search(struct target *t, uint64_t *end, GError **error);

/* Lets a vCPU execute one instruction; others run until it is its turn. */
bool target_step(struct target *t, unsigned vcpu, GError **error);

/**
 * target_step_watched() - execute one instruction of the vCPU whose turn it is,
 * with breakpoints that are wanted
 * @hit: the watchpoint that the instruction met, as in an answer that says so;
 *       NULL if none
 */
bool target_step_watched(struct target *t, GHashTable *breakpoints,
                         char **hit, GError **error);

/* A request about a vCPU that does not let it run, see stub_forward() */
char *target_forward(struct target *t, unsigned vcpu, const char *request,
                     size_t length, size_t *n, GError **error);

/* Breakpoints: "TYPE,ADDRESS,KIND" -> conditions as in gdb's request, from the
 * ";" on, or "" */
GHashTable *target_breakpoints_new(void);

/* Adds or removes one by a request, "Z" or "z" and what follows. */
void target_breakpoints_note(GHashTable *breakpoints, const char *request);

/* Inserts or removes a breakpoint by such a request.  Returns the answer for
 * gdb. */
char *target_breakpoint(struct target *t, const char *request, GError **error);

/* Makes those inserted that are wanted, and no others. */
bool target_set_breakpoints(struct target *t, GHashTable *want,
                            GError **error);

/* Is there a breakpoint where a vCPU stands, a condition of which holds if it
 * has any?  Those that cannot be evaluated do: gdb evaluates them again. */
bool target_at_breakpoint(struct target *t, unsigned vcpu,
                          GHashTable *breakpoints);

#endif /* BTRAIL_GDB_TARGET_H */
