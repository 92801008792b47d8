/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is missing of a kernel's names, as texts for people: what is not as in
 * other kernels, and what is lost by that
 */

#ifndef MISSING_NAMES_H
#define MISSING_NAMES_H

#include "guest-linux/kernel.h"

/* That this many bytes of the guest's RAM cannot be read; to be freed */
char *missing_names_unread(uint64_t bytes);

/*
 * All that is missing of @k, of whose guest @unread bytes cannot be read.
 * A list to be freed, empty if it is nothing
 */
char **missing_names(struct linux_kernel *k, uint64_t unread);

#endif /* MISSING_NAMES_H */
