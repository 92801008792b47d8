/*
 * Stopping a guest that is recorded where nothing is under way
 *
 * What is saved of it there is all that a replay needs to continue from there:
 * no request of a disk is lost, and no event that is not in the log yet.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "block/aio-wait.h"
#include "block/block.h"
#include "block/block_int.h"
#include "migration/vmstate.h"
#include "net/net.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-replay.h"
#include "qemu/main-loop.h"
#include "system/cpus.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "replay-internal.h"

static bool settled;

bool replay_is_settled(void)
{
    settled = settled && !runstate_is_running();
    return settled;
}

bool replay_requests_under_way(void)
{
    BlockDriverState *bs;
    BdrvNextIterator it;

    GRAPH_RDLOCK_GUARD_MAINLOOP();
    for (bs = bdrv_first(&it); bs; bs = bdrv_next(&it)) {
        if (qatomic_read(&bs->in_flight)) {
            bdrv_next_cleanup(&it);
            return true;
        }
    }
    return false;
}

/*
 * No vCPU runs.  Requests end here as they would have before the next
 * instruction: the log does not show that the guest is stopped.
 */
static void end_requests(void)
{
    while (replay_has_events() || replay_requests_under_way()) {
        replay_async_events();
        if (!replay_has_events() && replay_requests_under_way()) {
            aio_poll(qemu_get_aio_context(), true);
        }
    }
    replay_save_instructions();
}

ReplaySettled *qmp_replay_settle(Error **errp)
{
    ReplaySettled *at;

    if (replay_mode != REPLAY_MODE_RECORD || !replay_file) {
        error_setg(errp, "nothing is recorded");
        return NULL;
    }
    if (!runstate_is_running()) {
        error_setg(errp, "the guest does not run");
        return NULL;
    }
    pause_all_vcpus();
    end_requests();
    vm_stop(RUN_STATE_PAUSED);
    if (!replay_file) {
        error_setg(errp, "the log is full");
        return NULL;
    }
    replay_flush_log();
    settled = true;
    at = g_new0(ReplaySettled, 1);
    at->icount = replay_get_current_icount();
    at->offset = ftell(replay_file);
    at->cpu_index = replay_state.cpu_index;
    return at;
}

static int put_packets(QEMUFile *f, void *pv, size_t size,
                       const VMStateField *field, JSONWriter *vmdesc)
{
    qemu_save_queued_packets(f);
    return 0;
}

static int get_packets(QEMUFile *f, void *pv, size_t size,
                       const VMStateField *field)
{
    return qemu_load_queued_packets(f) ? 0 : -EINVAL;
}

const VMStateInfo vmstate_info_packets = {
    .name = "packets",
    .get = get_packets,
    .put = put_packets,
};
