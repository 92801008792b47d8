/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Windows: the part of a lane that gdb has as its branch trace
 *
 * gdb reads the code of a window from memory, which has one content for each
 * address.  So no code that ran in a window was changed in it, or is another in
 * two address spaces; and no records are missing in it.
 *
 * What gdb would take for a call or a return is left out, or it would lose its
 * way: retpolines, calls that only fill the return predictor, and the last
 * instruction of interrupts and exceptions.
 */

#ifndef BTRAIL_GDB_WALK_WINDOW_H
#define BTRAIL_GDB_WALK_WINDOW_H

#include "gdb/walker.h"

struct walk_window;

/**
 * walk_window_new
 * @spot:   an instruction that it has
 * @before, @after: the most records before it, and after it.  With an @after
 *          of 0, @spot is the last instruction
 *
 * Returns NULL if the trace is damaged there.
 */
struct walk_window *walk_window_new(struct symbolizer *symbols,
                                    struct lane *lane,
                                    const struct walker_spot *spot,
                                    size_t before, size_t after);
void walk_window_free(struct walk_window *w);

/* Its first instruction, and the last one, which has not run in it: to gdb, the
 * current one */
const struct walker_spot *walk_window_begin(const struct walk_window *w);
const struct walker_spot *walk_window_end(const struct walk_window *w);

/* What gdb reads as the object "btrace" */
GString *walk_window_xml(const struct walk_window *w);

/* gdb numbers the instructions of a window from 1.  The number of an
 * instruction, or of the last one before it if it was left out */
unsigned walk_window_number(const struct walk_window *w,
                            const struct walker_spot *spot);

/* The instruction with a number; false if there is none. */
bool walk_window_spot(const struct walk_window *w, unsigned number,
                      struct walker_spot *spot);

/* Is an instruction between its first and its last one? */
bool walk_window_has(const struct walk_window *w,
                     const struct walker_spot *spot);

/* Reads code that ran in it; returns how many bytes of it are known. */
size_t walk_window_read(const struct walk_window *w, uint64_t address,
                        void *buf, size_t n);

#endif /* BTRAIL_GDB_WALK_WINDOW_H */
