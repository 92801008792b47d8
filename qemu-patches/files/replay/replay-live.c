/*
 * A replay that continues as a guest of its own
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-replay.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "replay-checkpoints.h"
#include "replay-internal.h"

static VMChangeStateEntry *resumed;

/*
 * What waited for its turn in the log happens now.  Before, the guest is still
 * what it was in the replay.
 */
static void on_resume(void *opaque, bool running, RunState state)
{
    if (running) {
        qemu_del_vm_change_state_handler(resumed);
        resumed = NULL;
        replay_finish_events();
    }
}

void qmp_replay_go_live(Error **errp)
{
    if (replay_mode != REPLAY_MODE_PLAY) {
        error_setg(errp, "only a replay can go live");
        return;
    }
    if (runstate_is_running()) {
        error_setg(errp, "stop the guest first");
        return;
    }
    if (replay_checkpoints_active()) {
        error_setg(errp, "remove the object replay-checkpoints first: it keeps "
                   "what only a replay comes back to");
        return;
    }
    replay_delete_break();
    /* After the handlers of all devices, which then run */
    resumed = qemu_add_vm_change_state_handler_prio(on_resume, NULL, INT_MAX);
    replay_leave();
}
