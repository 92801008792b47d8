/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of Linux's system calls
 */

#ifndef BTRAIL_SYSCALL_NAME_H
#define BTRAIL_SYSCALL_NAME_H

#include <stdint.h>

#include "backtrail/names.h"

/**
 * syscall_name - the name of the system call that a function of the kernel
 * implements
 * @names:    have the kernel's tables of system calls; can be NULL
 * @kernel:   number of the kernel, as for btrail_names_syscall()
 * @time:     of the host's clock
 * @start:    linear address at which the function begins
 * @function: its name, which decides where there is no table, as for 32-bit
 *            programs since Linux 6.9
 *
 * Returns NULL if it is none; otherwise a name, which may be part of @function.
 */
const char *syscall_name(const struct btrail_names *names, uint32_t kernel,
                         uint64_t time, uint64_t start, const char *function);

#endif /* BTRAIL_SYSCALL_NAME_H */
