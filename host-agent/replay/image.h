/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Images of disks: their formats, and what else they need
 */

#ifndef BTRAIL_IMAGE_H
#define BTRAIL_IMAGE_H

#include "util/agent-error.h"

/**
 * image_format - the format of an image that stands by itself
 * @format: as stated by somebody, or NULL to look
 *
 * Returns "raw" or "qcow2", or NULL and an error: another format, a backing
 * file, data or a key elsewhere.
 */
const char *image_format(const char *path, const char *format, GError **error);

/*
 * Is this a qcow2 image that has all its data itself, or in a backing file that
 * QEMU is given explicitly?
 */
bool image_check_overlay(const char *path, GError **error);

#endif /* BTRAIL_IMAGE_H */
