/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What written-pages.c needs of QEMU's header of this name. */

#ifndef QEMU_EXEC_VADDR_H
#define QEMU_EXEC_VADDR_H

#include <stdint.h>

typedef uint64_t vaddr;

#endif /* QEMU_EXEC_VADDR_H */
