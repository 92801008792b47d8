/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page-versions.c needs of QEMU's header of this name. */

#ifndef QEMU_CUTILS_H
#define QEMU_CUTILS_H

#include <stdbool.h>
#include <stddef.h>

static inline bool buffer_is_zero(const void *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && !((const char *)bytes)[i]) {
        i++;
    }
    return i == n;
}

#endif /* QEMU_CUTILS_H */
