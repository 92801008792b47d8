/*
 * What a debugger has a replayed guest execute that was not recorded
 *
 * A debugger calls a function of the guest: it writes registers, and lets the
 * guest run until the function returns.  The log says nothing of that.  So the
 * guest is diverted then: it takes nothing from the log, gets no interrupt,
 * and may do no more than execute instructions and use its memory.  Loading a
 * checkpoint ends the diversion, and undoes all that was done in it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-replay.h"
#include "hw/core/cpu.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "replay-checkpoints.h"
#include "replay-internal.h"

/* Before the main loop may do something, for instance stop the guest */
#define SLICE   100000

static CPUState *diverted_cpu;

void qmp_replay_divert(int64_t cpu_index, Error **errp)
{
    CPUState *cpu = qemu_get_cpu(cpu_index);

    if (replay_mode != REPLAY_MODE_PLAY) {
        error_setg(errp, "only a replay can be diverted");
    } else if (runstate_is_running()) {
        error_setg(errp, "stop the guest first");
    } else if (!cpu) {
        error_setg(errp, "there is no CPU %" PRId64, cpu_index);
    } else if (replay_checkpoints_find(replay_get_current_icount()) < 0) {
        error_setg(errp, "there is no checkpoint to come back by; the object "
                   "replay-checkpoints takes them");
    } else {
        if (runstate_needs_reset()) {
            /* The log ends here; the memory is still the guest's. */
            runstate_set(RUN_STATE_PAUSED);
        }
        replay_delete_break();
        /* It may have waited for an interrupt. */
        cpu->halted = 0;
        diverted_cpu = cpu;
        replay_diverted = true;
    }
}

CPUState *replay_diverted_cpu(void)
{
    return diverted_cpu;
}

int replay_diversion_instructions(void)
{
    return SLICE;
}

void replay_refuse_diversion(void)
{
    qemu_system_vmstop_request_prepare();
    qemu_system_vmstop_request(RUN_STATE_IO_ERROR);
    /* It shall not get further before the main loop stops it. */
    cpu_stop_current();
}
