/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c needs of QEMU's header of this name. */

#ifndef QEMU_MEMALIGN_H
#define QEMU_MEMALIGN_H

#include <stdlib.h>

#define qemu_memalign   aligned_alloc
#define qemu_vfree      free

#endif /* QEMU_MEMALIGN_H */
