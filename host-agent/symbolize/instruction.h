/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an instruction does to the flow of control
 */

#ifndef BTRAIL_INSTRUCTION_H
#define BTRAIL_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No instruction is longer. */
#define INSTRUCTION_MAX     15

/* Room for the text of any instruction */
#define INSTRUCTION_TEXT    128

/**
 * enum instruction_kind
 *
 * @INSTRUCTION_UNKNOWN:     its bytes are not known, or not an instruction
 * @INSTRUCTION_OTHER:       continues with the next one, unless it faults
 * @INSTRUCTION_CALL:        near or far
 * @INSTRUCTION_RET:         near or far
 * @INSTRUCTION_JUMP:        always
 * @INSTRUCTION_CONDITIONAL: jumps or not: jcc, loop, jrcxz
 * @INSTRUCTION_SYSCALL:     syscall and sysenter
 * @INSTRUCTION_SYSRET:      sysret and sysexit
 * @INSTRUCTION_INT:         int n, int3, int1, into
 * @INSTRUCTION_IRET:        iret, eretu, erets, uiret, rsm
 * @INSTRUCTION_VM:          vmrun, vmlaunch, vmresume, vmcall, vmmcall
 */
enum instruction_kind {
    INSTRUCTION_UNKNOWN,
    INSTRUCTION_OTHER,
    INSTRUCTION_CALL,
    INSTRUCTION_RET,
    INSTRUCTION_JUMP,
    INSTRUCTION_CONDITIONAL,
    INSTRUCTION_SYSCALL,
    INSTRUCTION_SYSRET,
    INSTRUCTION_INT,
    INSTRUCTION_IRET,
    INSTRUCTION_VM,
};

/**
 * struct instruction
 * @direct: it has its target in itself: @target
 * @wraps:  IP has 16 bits there: if it wraps, the target is 64 KiB above or
 *          below @target.  Where in its segment an instruction is, is not known.
 */
struct instruction {
    enum instruction_kind kind;
    unsigned length;
    bool direct;
    bool wraps;
    uint64_t target;
};

/**
 * instruction_decode - decode one instruction
 * @bits: of the mode it runs in: 16, 32 or 64
 *
 * Returns false if the bytes are not an instruction, or not all of one; @insn
 * is then INSTRUCTION_UNKNOWN with a length of 0.
 */
bool instruction_decode(const void *bytes, size_t n, unsigned bits,
                        uint64_t address, struct instruction *insn);

/**
 * instruction_changes_stack - does code go to a stack that it is not on?
 * @bytes: of a function from its start on, in 64-bit mode
 *
 * As setcontext() does, and coroutines and schedulers of programs: they load
 * RSP from what is not on the stack.
 */
bool instruction_changes_stack(const void *bytes, size_t n);

/**
 * instruction_text - disassemble one instruction, in Intel's syntax
 * @address: linear, as are the targets in the text; IP can be another one
 * @text:    gets "(bad)" if the bytes are not an instruction, and of one that
 *           is newer than Zydis its name alone or "(unknown)"
 *
 * Returns its length, or 0.
 */
unsigned instruction_text(const void *bytes, size_t n, unsigned bits,
                          uint64_t address, char text[INSTRUCTION_TEXT]);

/**
 * instruction_goes - can this instruction branch to @to?
 *
 * If not, a record from it to @to is of an interrupt or exception.
 */
bool instruction_goes(const struct instruction *insn, uint64_t to);

/**
 * instruction_always_goes - is the next instruction never executed after it?
 *
 * If there is no record of it, one is missing: a CPU makes none of events that
 * its hypervisor injects.
 */
bool instruction_always_goes(const struct instruction *insn);

#endif /* BTRAIL_INSTRUCTION_H */
