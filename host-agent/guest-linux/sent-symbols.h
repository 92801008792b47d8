/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of a kernel, as a scanner sends them: once those that stay as
 * long as it runs, and those that come and go when they are others than were
 * sent
 *
 * Of the latter it also sends until when they have held (see HELD in
 * docs/trace-format.md).
 */

#ifndef SENT_SYMBOLS_H
#define SENT_SYMBOLS_H

#include "guest-linux/kernel-numbers.h"
#include "guest-linux/scan-output.h"

struct sent_symbols;

/*
 * @numbers: of kernels.  If @owner is not NULL, what holds is said only while
 * the kernel's number is that owner's.  Both and @out must outlive it.
 */
struct sent_symbols *sent_symbols_new(const struct scan_output *out,
                                      struct kernel_numbers *numbers,
                                      const void *owner);
void sent_symbols_free(struct sent_symbols *sent);

/*
 * Sends the symbols that stay, and the names of system calls, unless the same
 * were sent last: a kernel that was given up can be found again.
 */
void sent_symbols_send_own(struct sent_symbols *sent, struct linux_kernel *k);

/*
 * Sends the symbols of what comes and goes if they are not those that were sent
 * last.  They have been so between two looks that find the same.
 */
void sent_symbols_check(struct sent_symbols *sent, struct linux_kernel *k);

/*
 * When a check last found what was sent to hold; 0 if it does not, or nothing
 * was sent
 */
uint64_t sent_symbols_held(const struct sent_symbols *sent);

/* Sends that time, if there is one; then nothing holds any more. */
void sent_symbols_send_held(struct sent_symbols *sent,
                            const struct linux_kernel *k);

/* Forgets what is loaded, as its kernel has gone. */
void sent_symbols_forget(struct sent_symbols *sent);

/* Sends again what still holds of the kernel. */
void sent_symbols_resend(struct sent_symbols *sent,
                         const struct linux_kernel *k);

#endif /* SENT_SYMBOLS_H */
