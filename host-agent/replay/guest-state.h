/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saving the state of a guest that is stopped
 */

#ifndef BTRAIL_GUEST_STATE_H
#define BTRAIL_GUEST_STATE_H

#include "monitor/qmp.h"

/**
 * guest_state_save - save its devices and RAM, which QEMU loads with -incoming
 * @path:      of a file that does not exist
 * @cancel_fd: what waits ends when it becomes readable; -1 for none
 *
 * It is still stopped afterwards.  Errors: COMMAND (what QEMU says), CANCELLED,
 * and those of QMP and of the file.
 */
bool guest_state_save(struct qmp *qmp, const char *path, int cancel_fd,
                      GError **error);

/*
 * The same for a QEMU that, as with AppArmor, may write to no file of ours,
 * whoever opens it: it writes into a pipe.
 */
bool guest_state_pipe(struct qmp *qmp, const char *path, int cancel_fd,
                      GError **error);

#endif /* BTRAIL_GUEST_STATE_H */
