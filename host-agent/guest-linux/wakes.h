/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a kernel wakes tasks
 */

#ifndef LINUX_WAKES_H
#define LINUX_WAKES_H

#include "guest-linux/kernel.h"

/*
 * Looks where a kernel wakes tasks of which the symbols and the layout are known,
 * and sets @wakes_sought, @wake, @waking, @wake_new and @waking_new.  Returns
 * false, and sets the last four to 0, if this kernel is different.
 */
bool linux_wakes_find(struct linux_kernel *k);

#endif /* LINUX_WAKES_H */
