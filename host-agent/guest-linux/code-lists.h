/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that the kernel has made while it runs, and lists: BPF programs and
 * their trampolines, trampolines of ftrace, copies of instructions with kprobes
 */

#ifndef LINUX_CODE_LISTS_H
#define LINUX_CODE_LISTS_H

#include <glib.h>

#include "guest-linux/kernel.h"

/*
 * Appends them to @text, named as in /proc/kallsyms, with an end line each
 * where no other one follows.  Kinds that this kernel does not have, or has in
 * another way, are left out.  Returns false if a list could not be read to its
 * end.
 */
bool linux_code_lists_symbols(struct linux_kernel *k, GString *text);

/*
 * Mixes what changes when one of them comes or goes into @hash.  Returns false
 * if a list could not be read to its end.
 */
bool linux_code_lists_hash(struct linux_kernel *k, uint64_t *hash);

#endif /* LINUX_CODE_LISTS_H */
