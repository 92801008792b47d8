/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The build-id in the first bytes of an ELF image
 */

#ifndef BUILD_ID_H
#define BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

#define BUILD_ID_MAX    32

/* Returns the size of the id, 0 if these bytes do not have it. */
size_t build_id_find(const void *image, size_t size, uint8_t id[BUILD_ID_MAX]);

#endif /* BUILD_ID_H */
