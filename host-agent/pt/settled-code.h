/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of a guest that stands still, but for what the kernel can have had
 * elsewhere before
 *
 * Modules and eBPF programs come and go.  Packets of one can fit the code of
 * another that is in its place by now.
 */

#ifndef BTRAIL_SETTLED_CODE_H
#define BTRAIL_SETTLED_CODE_H

#include "pt/linked-blocks.h"

struct settled_code;

/**
 * settled_code_new - code that is not known before it was there
 * @image, @end: the kernel's own code is between them, and stays
 * @code:        says the code
 */
struct settled_code *settled_code_new(uint64_t image, uint64_t end,
                                      pt_code_fn *code, void *opaque);
void settled_code_free(struct settled_code *s);

/* From this TSC on all code is as it is now; 0, as at first: always.  As
 * code_writes_find() says it. */
void settled_code_set(struct settled_code *s, uint64_t after);

/* The settled_code is the first argument.  PT_CODE_CHANGED for what is not */
pt_code_fn settled_code_read;

#endif /* BTRAIL_SETTLED_CODE_H */
