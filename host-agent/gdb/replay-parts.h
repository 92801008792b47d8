/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parts of a replay's views share; not for others
 */

#ifndef BTRAIL_GDB_REPLAY_PARTS_H
#define BTRAIL_GDB_REPLAY_PARTS_H

#include "gdb/replay-view.h"

/* What lets QEMU run until something happens */
#define CONTINUE        "vCont;c"

/* What a replay cannot do, and its branch can */
#define BRANCH_INSTEAD  "; backtrail rr branch makes a guest that can"

/* QEMU is of no use any more.  Takes the error. */
void replay_target_fail(struct replay_target *r, GError *error);

/* replay-view.c: the guest of a view */

/* A run of this view is over. */
void replay_view_end_run(struct replay_view *v);

/* It has stopped because of @vcpu, or of the next instruction. */
void replay_view_stopped(struct replay_view *v, const char *how, unsigned vcpu);
void replay_view_stopped_here(struct replay_view *v, const char *how);

/* Claims the guest and takes it to an instruction, or to the end before it. */
bool replay_view_go(struct replay_view *v, uint64_t icount, GError **error);

/* Is there a breakpoint where a vCPU is, or the one whose turn it is? */
bool replay_view_vcpu_meets(struct replay_view *v, unsigned vcpu);
bool replay_view_meets(struct replay_view *v);

/* Lets a vCPU execute one instruction, for QEMU. */
char *replay_view_step_request(unsigned vcpu);

/* Does what is to be run go back? */
static inline bool replay_view_is_backward(const char *request)
{
    return request[0] == 'b';
}

/* Lets the guest run for a view, whose @run is set, or refuses that. */
void replay_view_start(struct replay_view *v);

/* replay-sharing.c: views give way to each other */

/* It was interrupted for others, and has made no progress. */
void replay_view_hold(struct replay_view *v);

/*
 * Has the guest not come to the end of its way because another one has a
 * request?  What was to be done is then done later, from the beginning: it has
 * no effect before its end.  Takes the error then.
 */
bool replay_view_put_off(struct replay_view *v, GError *error);

/*
 * From here to replay_view_end_way(), the guest goes ways for a view, for its
 * request or to continue its run; see replay_view_put_off().
 */
void replay_view_begin_way(struct replay_view *v, bool for_request);
void replay_view_end_way(struct replay_view *v);

/* Stops the guest, unless that is to be put off; and does so in @ms. */
void replay_target_stop(struct replay_target *r);
void replay_target_stop_in(struct replay_target *r, unsigned ms);

/* Serves what has come while the guest ran. */
void replay_target_serve(struct replay_target *r);

/* replay-stops.c */

/* The guest has stopped: for its view, or because another one needs it.  @said:
 * by QEMU */
void replay_target_stopped(struct replay_target *r, const char *said);

/* As QEMU says it, which can have other names of threads */
void replay_view_pass_stop(struct replay_view *v, const char *said);

/* replay-back.c */

/* Takes one vCPU back to before its last instruction. */
void replay_view_step_back(struct replay_view *v, unsigned vcpu);

/*
 * QEMU's own way back leaves out the instruction before the one where the guest
 * is.  It cannot begin at the end: as it replays up to there, the guest shuts
 * down.
 */
void replay_view_run_back(struct replay_view *v);

/*
 * QEMU's own way back has shut down, and has begun at the end; has come to its
 * end; or was interrupted: it can continue from where it has come to.
 */
void replay_view_back_from_end(struct replay_view *v);
void replay_view_back_found(struct replay_view *v, const char *said);
void replay_view_back_left(struct replay_view *v);

#endif /* BTRAIL_GDB_REPLAY_PARTS_H */
