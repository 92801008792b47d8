/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's tables of system calls, as text
 */

#ifndef LINUX_SYSCALLS_H
#define LINUX_SYSCALLS_H

#include <glib.h>

#include "guest-linux/kernel.h"

/*
 * Returns the text of a SYSCALLS piece (see docs/trace-format.md), to be freed;
 * it is empty if there is no table, or none that can be read.
 */
GString *linux_syscalls(struct linux_kernel *k);

#endif /* LINUX_SYSCALLS_H */
