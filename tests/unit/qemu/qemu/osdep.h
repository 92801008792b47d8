/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What queue.c of the device needs of QEMU's header of this name. */

#ifndef QEMU_OSDEP_H
#define QEMU_OSDEP_H

#include <stdbool.h>
#include <stdint.h>

#endif /* QEMU_OSDEP_H */
