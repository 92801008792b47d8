/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU's files include first, for those of ours that need nothing of it
 */

#ifndef TESTS_QEMU_OSDEP_H
#define TESTS_QEMU_OSDEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#endif /* TESTS_QEMU_OSDEP_H */
