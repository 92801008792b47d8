/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Was the instruction executed that a record is from?
 *
 * If not, an interrupt or a fault came instead, and it is executed afterwards,
 * if at all.
 */

#ifndef BTRAIL_EXECUTED_H
#define BTRAIL_EXECUTED_H

#include "symbolize/instruction.h"
#include "symbolize/symbolizer.h"

/**
 * executed - what the target of a record says of its instruction
 * @process: that has made the record
 * @where:   its place
 * @insn:    what is at @from
 * @moved:   the difference of the record's addresses to those that @insn was
 *           decoded at
 */
bool executed(struct symbolizer *s, const struct process *process,
              const struct symbolizer_where *where,
              const struct instruction *insn, uint64_t moved, uint64_t from,
              uint64_t to);

/*
 * Can such an instruction go to where a handler begins, so that only this tells
 * that it was interrupted?  Nothing branches there.  An IRET is none of these:
 * it returns to handlers that were interrupted as they began.
 */
bool executed_anywhere(const struct instruction *insn);

#endif /* BTRAIL_EXECUTED_H */
