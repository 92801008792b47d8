/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When did the kernel of a guest, whose rings were frozen, write code last?
 *
 * Each function that writes or frees code calls others, whose returns have a
 * TIP with an address in it; so do interrupts.  So packets say it, and no code
 * is needed, which can be another one by now.  They say it only if no return is
 * compressed.
 */

#ifndef BTRAIL_CODE_WRITES_H
#define BTRAIL_CODE_WRITES_H

#include "guest-linux/code-writers.h"
#include "pt/frozen-trace.h"

/* TSCs are compared by what packets have of them. */
#define CODE_WRITES_TSC     (UINT64_MAX >> 8)
/* For code that may have been written at any time */
#define CODE_WRITES_NEVER   UINT64_MAX

/* Asked now and then, by any thread; false: it ends, with CODE_WRITES_NEVER. */
typedef bool code_writes_fn(void *opaque);

/**
 * struct code_writes_count
 * @visits: packets with an address in such a function
 * @lost:   places at which packets are missing, so that some can be there
 */
struct code_writes_count {
    uint64_t visits;
    uint64_t lost;
};

/**
 * code_writes_find - look through streams, some in parallel
 * @writers: of the guest's kernel
 * @options: as frozen_trace_write() gets them
 * @streams: their code is not asked for
 * @vcpus:   how many the guest has: what those did whose streams are not there
 *           is not known
 * @after:   gets for each stream from which TSC of its own on all code is as
 *           it is in memory now: 0: always; or CODE_WRITES_NEVER
 */
void code_writes_find(const struct linux_code_writers *writers,
                      const struct frozen_options *options,
                      const struct frozen_stream *streams, unsigned n,
                      unsigned vcpus, code_writes_fn *go_on, void *opaque,
                      uint64_t *after, struct code_writes_count *count);

#endif /* BTRAIL_CODE_WRITES_H */
