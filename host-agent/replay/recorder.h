/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recording a guest: from QEMU's command line to a folder
 */

#ifndef BTRAIL_RECORDER_H
#define BTRAIL_RECORDER_H

#include "replay/recording.h"
#include "replay/running-guest.h"

/**
 * struct recorder_options
 * @folder:    to make; must not exist
 * @program:   path of QEMU
 * @arguments: of QEMU, as a user has written them; ends with NULL
 * @input:     what the guest's serial port on stdio reads, or -1
 * @output:    where that port writes to, or -1
 * @stop_fd:   when it becomes readable, the machine is switched off
 * @keep_ns:   how much of the guest's last part is kept, by the time of this
 *             host; 0 for all
 * @running:   the guest that the recording begins with, or NULL; @arguments are
 *             those of running_guest_arguments() then
 * @copied:    called when all files are copied, and @running is still stopped,
 *             or NULL; if it returns false, the guest does not begin
 * @started:   called when the guest begins, or NULL; @note is what a user must
 *             know of the machine, or NULL
 */
struct recorder_options {
    const char *folder;
    const char *program;
    char *const *arguments;
    int input;
    int output;
    int stop_fd;
    uint64_t keep_ns;
    struct running_guest *running;
    bool (*copied)(void *opaque, GError **error);
    void (*started)(void *opaque, const char *note);
    void *opaque;
};

/**
 * recorder_run - record a guest until it ends
 *
 * Returns what was recorded.  If it fails before the guest begins, the folder
 * is removed; later, it has what is whole, and recording_open() says whether
 * that can be replayed.
 */
struct recording *recorder_run(const struct recorder_options *options,
                               GError **error);

#endif /* BTRAIL_RECORDER_H */
