/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What written-pages.c needs of QEMU's header of this name. */

#ifndef QEMU_EXEC_TARGET_PAGE_H
#define QEMU_EXEC_TARGET_PAGE_H

#define TARGET_PAGE_BITS    12

#endif /* QEMU_EXEC_TARGET_PAGE_H */
