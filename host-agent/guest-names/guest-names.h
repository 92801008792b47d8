/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: a thread that asks backtrail-guest-names in the guest for
 * names, and makes sideband of them
 *
 * The drain reports which page tables ran when, and which code with them.  What
 * results is marked by its kind as the guest's word.
 */

#ifndef BTRAIL_GUEST_WORDS_H
#define BTRAIL_GUEST_WORDS_H

#include "backtrail/trace.h"
#include "backtrail/transport.h"
#include "guest-linux/scan-output.h"
#include "lib/agent/budget.h"
#include "util/cpu-limit.h"

struct guest_words;

/**
 * guest_words_new - start the thread
 * @sock:  a stream to the guest; is the thread's from here on
 * @limit: of the guest's CPU time, which is charged, or NULL
 * @budget: what is kept of its words is taken from it
 * @fn:    gets what was said, as a scanner's; never a snapshot itself
 */
struct guest_words *
guest_words_new(int sock, struct cpu_limit *limit,
                struct btrail_budget *budget, scanner_piece_fn *fn,
                void *opaque);

/*
 * A slab of a vCPU, in order; and an item of code that belongs before a record
 * of the next one.  For the thread that drains
 */
void guest_words_slab(struct guest_words *w, unsigned vcpu,
                      const struct btrail_slab *slab);
void guest_words_code(struct guest_words *w, unsigned vcpu,
                      const struct btrail_code_item *item);

/* Sends all that still holds again, to all. */
void guest_words_resend(struct guest_words *w);

/**
 * struct guest_words_result
 * @release: of the guest's kernel, as it says; NULL if it has said nothing
 * @why:     what is wrong if not all is well, or NULL
 * @named:   address spaces of which the process is known
 */
struct guest_words_result {
    char *release;
    char *why;
    uint64_t named;
};

/* Gets the result so far, to be cleared; any thread */
void guest_words_status(struct guest_words *w,
                        struct guest_words_result *result);

/*
 * Waits a little for what the guest still has to say of what was drained, and
 * ends the thread; @result is to be cleared.
 */
void guest_words_finish(struct guest_words *w,
                        struct guest_words_result *result);
void
guest_words_result_clear(struct guest_words_result *result);

#endif /* BTRAIL_GUEST_WORDS_H */
