/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The build-id of an ELF image of which the beginning is there
 */

#ifndef BUILD_ID_H
#define BUILD_ID_H

#include <stddef.h>
#include <stdint.h>

#define BUILD_ID_MAX    32

/* Bytes of the id, 0 if there is none in what is there */
size_t build_id_find(const void *image, size_t size, uint8_t id[BUILD_ID_MAX]);

#endif /* BUILD_ID_H */
