/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints of a replay, saved in its recording
 *
 * They have states of QEMU's devices, which QEMU loads without much of a
 * check.  So they are used only if this user has made them, of this recording,
 * with this QEMU: the file is authenticated with a key of the user's.
 *
 *   header   struct saved_header
 *   chunks   of each its size (32 bits, little endian), its HMAC, which covers
 *            the header's nonce and its index, too, and what QEMU has
 *            written, CHUNK bytes of it, compressed with zstd
 */

#ifndef BTRAIL_SAVED_CHECKPOINTS_H
#define BTRAIL_SAVED_CHECKPOINTS_H

#include "replay/recording.h"

#define RECORDING_CHECKPOINTS    "checkpoints"

/**
 * struct saved_checkpoints_info
 * @count:  of checkpoints
 * @bytes:  of the file
 * @memory: that they need once they are used
 */
struct saved_checkpoints_info {
    uint32_t count;
    uint64_t bytes;
    uint64_t memory;
};

/**
 * saved_checkpoints_info - what is said of them
 * @qemu_sha256: of the QEMU to replay with
 *
 * Only the header is checked.  Returns false without an error if there are
 * none.
 *
 * Errors: SYSTEM; PROTOCOL (of another user, recording or QEMU, or damaged).
 */
bool saved_checkpoints_info(const struct recording *r, const char *qemu_sha256,
                            struct saved_checkpoints_info *info,
                            GError **error);

/**
 * saved_checkpoints_open - what QEMU has written, if it is whole and ours
 *
 * Returns memory that nobody can change any more, as a file to be closed, or
 * -1, with errors as above.
 */
int saved_checkpoints_open(const struct recording *r, const char *qemu_sha256,
                           GError **error);

/* Saves what comes out of a pipe, which it closes. */
struct checkpoint_saver;

struct checkpoint_saver *checkpoint_saver_start(const struct recording *r,
                                                const char *qemu_sha256,
                                                uint32_t count, int from);

/* Waits for its end.  What was there before is replaced if @ok, and all was
 * written. */
bool checkpoint_saver_finish(struct checkpoint_saver *s, bool ok,
                             GError **error);

#endif /* BTRAIL_SAVED_CHECKPOINTS_H */
