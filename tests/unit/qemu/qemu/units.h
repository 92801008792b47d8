/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c and written-pages.c need of QEMU's header of this
 * name. */

#ifndef QEMU_UNITS_H
#define QEMU_UNITS_H

#define KiB (1ull << 10)
#define MiB (1ull << 20)

#endif /* QEMU_UNITS_H */
