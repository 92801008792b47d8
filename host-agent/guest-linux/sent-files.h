/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Images of the vDSO, and functions of programs and libraries, as a scanner
 * sends them: what snapshots find that is the same with any kernel
 */

#ifndef SENT_FILES_H
#define SENT_FILES_H

#include "guest-linux/kernel.h"
#include "guest-linux/scan-output.h"

struct sent_files;

/* @out must outlive it. */
struct sent_files *sent_files_new(const struct scan_output *out);
void sent_files_free(struct sent_files *files);

/*
 * Sends the images and the functions of files in a snapshot that were not sent;
 * those of a file again if more of it is in memory than before.
 */
void sent_files_send(struct sent_files *files, struct linux_kernel *k,
                     const struct btrail_snapshot *snapshot);

/* Sends all again. */
void sent_files_resend(struct sent_files *files);

#endif /* SENT_FILES_H */
