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
 * @INSTRUCTION_UNKNOWN:     its bytes are not known, or are no instruction
 * @INSTRUCTION_OTHER:       goes on with the next one, unless it faults
 * @INSTRUCTION_CALL:        near or far
 * @INSTRUCTION_RET:         near or far
 * @INSTRUCTION_JUMP:        always
 * @INSTRUCTION_CONDITIONAL: jumps or not: jcc, loop, jrcxz
 * @INSTRUCTION_SYSCALL:     syscall and sysenter
 * @INSTRUCTION_SYSRET:      sysret and sysexit
 * @INSTRUCTION_INT:         int n, int3, int1, into
 * @INSTRUCTION_IRET:        iret, rsm
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
 * @direct: it says itself where it goes, if it goes: to @target
 */
struct instruction {
    enum instruction_kind kind;
    unsigned length;
    bool direct;
    uint64_t target;
};

/**
 * instruction_decode - understand one instruction
 * @bits: of the mode it runs in: 16, 32 or 64
 *
 * False if it is none, or its end is not there; @insn is then of the kind
 * INSTRUCTION_UNKNOWN with a length of 0.
 */
bool instruction_decode(const void *bytes, size_t n, unsigned bits,
                        uint64_t address, struct instruction *insn);

/**
 * instruction_text - disassemble one instruction, in Intel's syntax
 * @text: gets "(bad)" if it is none
 *
 * Returns its length, or 0.
 */
unsigned instruction_text(const void *bytes, size_t n, unsigned bits,
                          uint64_t address, char text[INSTRUCTION_TEXT]);

/**
 * instruction_goes - can a record be of this instruction?
 *
 * False if one from it to @to must be of an interrupt or exception.
 */
bool instruction_goes(const struct instruction *insn, uint64_t to);

#endif /* BTRAIL_INSTRUCTION_H */
