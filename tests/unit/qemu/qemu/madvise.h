/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c needs of QEMU's header of this name. */

#ifndef QEMU_MADVISE_H
#define QEMU_MADVISE_H

#include <sys/mman.h>

#define QEMU_MADV_HUGEPAGE  MADV_HUGEPAGE
#define qemu_madvise        madvise

#endif /* QEMU_MADVISE_H */
