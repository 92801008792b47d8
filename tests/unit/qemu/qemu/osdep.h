/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What those of our files that are tested alone need of QEMU's header of this
 * name. */

#ifndef QEMU_OSDEP_H
#define QEMU_OSDEP_H

#include <assert.h>
#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define unlikely(x)             __builtin_expect(!!(x), 0)
#define QEMU_IS_ALIGNED(n, to)  ((n) % (to) == 0)

#endif /* QEMU_OSDEP_H */
