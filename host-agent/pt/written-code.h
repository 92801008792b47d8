/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of a guest that stands still, but for what its programs have written
 *
 * Packets do not say where a branch is.  Code that was written anew and has the
 * same branches in other places fits the same packets, and so nobody would see
 * that it is not what was executed.  A page that a program has written to has
 * the dirty bit in its page table (SDM vol. 3, 4.8); programs of files have
 * none.  The program can have written through another mapping of the same page
 * of memory, too, which its page tables have (data-frames.h).  What others have
 * written is not seen, nor what it has unmapped since.
 */

#ifndef BTRAIL_WRITTEN_CODE_H
#define BTRAIL_WRITTEN_CODE_H

#include "guest-linux/guest-memory.h"
#include "pt/linked-blocks.h"

struct written_code;

/**
 * written_code_new - code that is not known if it was written
 * @memory: the guest's; it must outlive this
 * @levels: of its page tables, as for page_walk_init(); with 1 there are none,
 *          and nothing says what was written
 * @code:   says the code
 */
struct written_code *written_code_new(const struct guest_memory *memory,
                                      unsigned levels, pt_code_fn *code,
                                      void *opaque);
void written_code_free(struct written_code *w);

/*
 * The written_code is the first argument.  PT_CODE_CHANGED for a page that can
 * be executed in user mode and was written to in it, here or elsewhere
 */
pt_code_fn written_code_read;

#endif /* BTRAIL_WRITTEN_CODE_H */
