/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Was an instruction executed: see executed.h
 */

#include "symbolize/entry-place.h"
#include "symbolize/executed.h"

bool executed_anywhere(const struct instruction *insn)
{
    switch (insn->kind) {
    case INSTRUCTION_UNKNOWN:
    case INSTRUCTION_CALL:
    case INSTRUCTION_RET:
    case INSTRUCTION_JUMP:
        return !insn->direct;
    default:
        return false;
    }
}

bool executed(struct symbolizer *s, const struct process *process,
              const struct symbolizer_where *where,
              const struct instruction *insn, uint64_t moved, uint64_t from,
              uint64_t to)
{
    struct place place;

    if (!instruction_goes(insn, to - moved)) {
        return false;
    }
    if (to < ADDRESS_SHARED) {
        return true;
    }
    symbolizer_target(s, process, where, to, &place);
    switch (insn->kind) {
    case INSTRUCTION_INT:
        /* What it goes to is the handler of an exception. */
        return entry_place_kind(&place) != BTRAIL_PSEUDO_INTERRUPT;
    case INSTRUCTION_SYSCALL:
        return !entry_place_handler(&place);
    case INSTRUCTION_CALL:
    case INSTRUCTION_RET:
    case INSTRUCTION_JUMP:
        return from >= ADDRESS_SHARED && (!executed_anywhere(insn) ||
                                          !entry_place_handler(&place));
    default:
        return true;
    }
}
